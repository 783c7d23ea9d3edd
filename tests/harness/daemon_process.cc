#include "tests/harness/daemon_process.h"

#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "gtest/gtest.h"
#include "proto/status/status_proto.h"
#include "tests/harness/runfile.h"
#include "tests/harness/sanitizer.h"

namespace pto::testing {
namespace {

constexpr absl::Duration kStartTimeout = absl::Seconds(60);
constexpr absl::Duration kEventually = absl::Seconds(30);
// The polling interval for conditions that cannot be waited for.
constexpr absl::Duration kStep = absl::Milliseconds(5);
constexpr size_t kShownLog = 16 << 10;

bool CanConnect(const std::string& path) {
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
  const bool connected =
      connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  close(fd);
  return connected;
}

}  // namespace

bool Eventually(const std::function<bool()>& condition) {
  const absl::Time deadline = absl::Now() + kEventually;
  while (!condition()) {
    if (absl::Now() >= deadline) return false;
    absl::SleepFor(kStep);
  }
  return true;
}

DaemonProcess::DaemonProcess(std::vector<std::string> flags)
    : socket_path_(directory_.path() + "/s"),
      address_("unix:" + socket_path_),
      log_path_(directory_.path() + "/log"),
      flags_(std::move(flags)),
      api_(address_) {
  Start();
}

DaemonProcess::~DaemonProcess() {
  if (!checked_) {
    if (running()) {
      Stop();
    } else {
      CheckEnd(*process_->Wait(absl::ZeroDuration()));
    }
  }
  if (::testing::UnitTest::GetInstance()->Failed()) {
    const std::string log = Log();
    const size_t from = log.size() > kShownLog ? log.size() - kShownLog : 0;
    std::cerr << "---- log of ptod " << absl::StrJoin(flags_, " ") << "\n"
              << log.substr(from) << "----\n";
  }
}

void DaemonProcess::Start() {
  Process::Options options;
  options.command = {Runfile("daemon/ptod"), "--listen=" + address_};
  options.command.insert(options.command.end(), flags_.begin(), flags_.end());
  options.out = options.err = log_path_;
  options.append = true;
  process_ = std::make_unique<Process>(options);
  checked_ = false;
  if (!WaitUntilReady()) ADD_FAILURE() << "ptod does not serve:\n" << Log();
}

bool DaemonProcess::WaitUntilReady() {
  const absl::Time deadline = absl::Now() + kStartTimeout;
  while (!CanConnect(socket_path_)) {
    if (absl::Now() >= deadline || process_->Wait(kStep).has_value()) return false;
  }
  while (running() && absl::Now() < deadline) {
    grpc::ClientContext context;
    context.set_wait_for_ready(true);
    context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Seconds(5)));
    v1::Node node;
    if (api_.node->GetNode(&context, {}, &node).ok() && node.pid() == pid()) return true;
  }
  return false;
}

void DaemonProcess::Restart() {
  ASSERT_TRUE(process_->ended()) << "stop or kill it first";
  Start();
}

void DaemonProcess::Restart(std::vector<std::string> flags) {
  flags_ = std::move(flags);
  Restart();
}

void DaemonProcess::Stop(absl::Duration timeout) {
  Signal(SIGTERM);
  WaitForEnd(kAddressSanitizer ? 3 * timeout : timeout);
}

int DaemonProcess::WaitForEnd(absl::Duration timeout) {
  const absl::optional<int> status = process_->Wait(timeout);
  if (!status.has_value()) {
    ADD_FAILURE() << "ptod has not ended within " << timeout;
    Kill();
    return -1;
  }
  CheckEnd(*status);
  return *status;
}

void DaemonProcess::Kill() {
  if (running()) {
    Signal(SIGKILL);
    EXPECT_TRUE(process_->Wait(absl::Seconds(30)).has_value());
  }
  checked_ = true;
  CheckNothingLeft();
}

void DaemonProcess::Pause() {
  Signal(SIGSTOP);
  const auto all_stopped = [this] {
    for (const auto& thread :
         std::filesystem::directory_iterator(absl::StrCat("/proc/", pid(), "/task"))) {
      // The state is the letter after the name, which is in parentheses.
      const std::string stat = ReadFile(thread.path() / "stat");
      if (!absl::StrContains(stat, ") T ")) return false;
    }
    return true;
  };
  EXPECT_TRUE(Eventually(all_stopped));
}

void DaemonProcess::Resume() { Signal(SIGCONT); }

void DaemonProcess::CheckEnd(int status) {
  checked_ = true;
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0)
      << "ptod ended with " << DescribeWaitStatus(status);
  CheckNothingLeft();
}

void DaemonProcess::CheckNothingLeft() {
  EXPECT_FALSE(process_->GroupExists()) << "ptod has left a process behind";
  const std::string log = Log();
  for (const char* report :
       {"AddressSanitizer", "LeakSanitizer", "ThreadSanitizer", "runtime error:"}) {
    EXPECT_FALSE(absl::StrContains(log, report)) << "a sanitizer has reported";
  }
  EXPECT_FALSE(absl::StrContains(log, kNoReasonLogged)) << "every error needs a reason";
}

bool DaemonProcess::IsServing(const std::string& service) {
  const auto stub = grpc::health::v1::Health::NewStub(api_.channel);
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + kCallTimeout));
  grpc::health::v1::HealthCheckRequest request;
  request.set_service(service);
  grpc::health::v1::HealthCheckResponse response;
  const grpc::Status status = stub->Check(&context, request, &response);
  EXPECT_TRUE(status.ok()) << status.error_message();
  return response.status() == grpc::health::v1::HealthCheckResponse::SERVING;
}

uint64_t DaemonProcess::ResidentBytes() const {
  std::ifstream file(absl::StrCat("/proc/", pid(), "/statm"));
  uint64_t total = 0;
  uint64_t resident = 0;
  EXPECT_TRUE(file >> total >> resident) << "ptod is not running";
  return resident * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

size_t DaemonProcess::OpenFiles() const {
  size_t count = 0;
  for ([[maybe_unused]] const auto& entry :
       std::filesystem::directory_iterator(absl::StrCat("/proc/", pid(), "/fd"))) {
    ++count;
  }
  return count;
}

std::string DaemonProcess::Log() const { return ReadFile(log_path_); }

}  // namespace pto::testing
