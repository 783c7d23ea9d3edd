#include "tests/harness/process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "tests/harness/directory.h"

extern char** environ;

namespace pto::testing {
namespace {

std::vector<std::string> Environment(const Process::Options& options) {
  std::vector<std::string> result;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const bool replaced =
        std::any_of(options.environment.begin(), options.environment.end(),
                    [&](const auto& added) { return absl::StartsWith(*entry, added.first + "="); });
    if (!replaced) result.emplace_back(*entry);
  }
  for (const auto& [name, value] : options.environment) {
    result.push_back(absl::StrCat(name, "=", value));
  }
  return result;
}

std::vector<char*> Pointers(std::vector<std::string>& strings) {
  std::vector<char*> result;
  for (std::string& text : strings) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

int OpenOutput(const std::string& path, bool append) {
  return open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_APPEND | (append ? 0 : O_TRUNC),
              0600);
}

}  // namespace

Process::Process(const Options& options) {
  // All allocations come before the fork: other threads may hold malloc's lock.
  std::vector<std::string> command = options.command;
  std::vector<std::string> environment = Environment(options);
  const std::vector<char*> argv = Pointers(command);
  const std::vector<char*> envp = Pointers(environment);
  const int in = open("/dev/null", O_RDONLY | O_CLOEXEC);
  const int out = OpenOutput(options.out, options.append);
  const int err = OpenOutput(options.err, options.append || options.out == options.err);
  const pid_t parent = getpid();
  sigset_t none;
  sigemptyset(&none);

  pid_ = fork();
  if (pid_ == 0) {
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(127);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    // Other threads may have opened files that are not close-on-exec yet: gRPC sets the flag after
    // opening.
    close_range(3, ~0U, CLOSE_RANGE_CLOEXEC);
    if (dup2(in, 0) == 0 && dup2(out, 1) == 1 && dup2(err, 2) == 2) {
      execve(argv[0], argv.data(), envp.data());
    }
    _exit(127);
  }
  if (pid_ > 0) {
    // Here too, because the child may not have reached its own call yet.
    setpgid(pid_, pid_);
    pidfd_ = static_cast<int>(syscall(SYS_pidfd_open, pid_, 0));
  }
  close(in);
  close(out);
  close(err);
  EXPECT_GT(pid_, 0) << "fork: " << std::strerror(errno);
  EXPECT_GE(pidfd_, 0) << "pidfd_open: " << std::strerror(errno);
}

Process::~Process() {
  if (pid_ <= 0) return;
  if (!ended()) {
    Signal(SIGKILL);
    Wait(absl::Seconds(30));
  }
  if (pidfd_ >= 0) close(pidfd_);
}

void Process::Signal(int signal) const {
  // By descriptor, which cannot refer to another process with the same pid.
  syscall(SYS_pidfd_send_signal, pidfd_, signal, nullptr, 0);
}

absl::optional<int> Process::Wait(absl::Duration timeout) {
  if (status_.has_value() || pid_ <= 0) return status_;
  const absl::Time deadline = absl::Now() + timeout;
  while (true) {
    const absl::Duration left = std::max(deadline - absl::Now(), absl::ZeroDuration());
    pollfd readable = {pidfd_, POLLIN, 0};
    const int ready = poll(&readable, 1, static_cast<int>(absl::ToInt64Milliseconds(left)));
    if (ready > 0) break;
    if (ready == 0 && absl::Now() >= deadline) return absl::nullopt;
    if (ready < 0 && errno != EINTR) return absl::nullopt;
  }
  int status = 0;
  if (waitpid(pid_, &status, 0) == pid_) status_ = status;
  return status_;
}

bool Process::GroupExists() const { return pid_ > 0 && kill(-pid_, 0) == 0; }

std::string DescribeWaitStatus(int status) {
  if (WIFEXITED(status)) return absl::StrCat("exit code ", WEXITSTATUS(status));
  if (WIFSIGNALED(status)) {
    return absl::StrCat("killed by signal ", WTERMSIG(status), " (", strsignal(WTERMSIG(status)),
                        ")");
  }
  return absl::StrCat("wait status ", status);
}

ProgramResult RunProgram(const std::vector<std::string>& command,
                         const std::vector<std::pair<std::string, std::string>>& environment,
                         absl::Duration timeout) {
  const Directory directory;
  Process::Options options;
  options.command = command;
  options.environment = environment;
  options.out = directory.path() + "/out";
  options.err = directory.path() + "/err";
  Process process(options);
  const absl::optional<int> status = process.Wait(timeout);
  ProgramResult result;
  if (status.has_value() && WIFEXITED(*status)) result.exit_code = WEXITSTATUS(*status);
  result.out = ReadFile(options.out);
  result.err = ReadFile(options.err);
  EXPECT_TRUE(status.has_value()) << command[0] << " has not ended within " << timeout << "\n"
                                  << result.err;
  return result;
}

}  // namespace pto::testing
