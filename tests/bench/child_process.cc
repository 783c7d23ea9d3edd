#include "tests/bench/child_process.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace pto::bench {

absl::StatusOr<ChildProcess> ChildProcess::Start(const std::vector<std::string>& command) {
  if (command.empty() || access(command[0].c_str(), X_OK) != 0) {
    return absl::NotFoundError(
        absl::StrCat("cannot start ", command.empty() ? "nothing" : command[0]));
  }
  std::vector<char*> argv;
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid < 0) return absl::InternalError(absl::StrCat("fork: ", std::strerror(errno)));
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() == parent) execv(argv[0], argv.data());
    _exit(127);
  }
  return ChildProcess(pid);
}

ChildProcess& ChildProcess::operator=(ChildProcess&& other) noexcept {
  if (this != &other) {
    Stop();
    pid_ = std::exchange(other.pid_, 0);
  }
  return *this;
}

void ChildProcess::Stop() {
  if (pid_ == 0) return;
  const pid_t pid = std::exchange(pid_, 0);
  kill(pid, SIGTERM);
  constexpr auto kStep = std::chrono::milliseconds(10);
  constexpr int kSteps = 500;
  for (int i = 0; i < kSteps; ++i) {
    if (waitpid(pid, nullptr, WNOHANG) != 0) return;
    std::this_thread::sleep_for(kStep);
  }
  kill(pid, SIGKILL);
  waitpid(pid, nullptr, 0);
}

absl::StatusOr<TemporaryDirectory> TemporaryDirectory::Make() {
  char path[] = "/tmp/pto-bench-XXXXXX";
  if (mkdtemp(path) == nullptr) {
    return absl::InternalError(absl::StrCat("mkdtemp: ", std::strerror(errno)));
  }
  return TemporaryDirectory(path);
}

TemporaryDirectory::TemporaryDirectory(TemporaryDirectory&& other) noexcept
    : path_(std::exchange(other.path_, "")) {}

TemporaryDirectory::~TemporaryDirectory() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

}  // namespace pto::bench
