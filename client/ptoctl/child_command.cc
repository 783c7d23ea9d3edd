#include "client/ptoctl/child_command.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <set>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "runtime/base/error.h"

namespace pto::ptoctl {
namespace {

volatile pid_t child_pid = 0;
// A signal that arrived before `child_pid` was set, or 0.
volatile std::sig_atomic_t early_signal = 0;

void Forward(int signal, siginfo_t* info, void* /*context*/) {
  const bool from_terminal = signal == SIGINT && info->si_code == SI_KERNEL;
  if (from_terminal) return;
  if (child_pid > 0) {
    kill(child_pid, signal);
  } else {
    early_signal = signal;
  }
}

// Forwards signals to the child for the lifetime of this object.
class Forwarding {
 public:
  Forwarding() {
    early_signal = 0;
    struct sigaction action = {};
    action.sa_sigaction = &Forward;
    action.sa_flags = SA_SIGINFO | SA_RESTART;
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < 3; ++i) sigaction(kSignals[i], &action, &before_[i]);
  }
  ~Forwarding() {
    for (size_t i = 0; i < 3; ++i) sigaction(kSignals[i], &before_[i], nullptr);
    child_pid = 0;
  }
  Forwarding(const Forwarding&) = delete;
  Forwarding& operator=(const Forwarding&) = delete;

 private:
  static constexpr int kSignals[3] = {SIGINT, SIGTERM, SIGHUP};
  struct sigaction before_[3] = {};
};

std::vector<char*> Pointers(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

std::vector<std::string> MakeEnvironment(const std::map<std::string, std::string>& changes) {
  std::vector<std::string> all;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const absl::string_view text = *entry;
    if (changes.count(std::string(text.substr(0, text.find('=')))) == 0) all.emplace_back(text);
  }
  for (const auto& [name, value] : changes) all.push_back(absl::StrCat(name, "=", value));
  return all;
}

// Runs in the child. Only async-signal-safe functions may be called here: other threads of the
// parent may have held locks at the fork.
[[noreturn]] void Exec(pid_t parent, char** arguments, char** environment, int report) {
  signal(SIGINT, SIG_DFL);
  signal(SIGTERM, SIG_DFL);
  signal(SIGHUP, SIG_DFL);
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  // The parent may have exited before prctl.
  if (getppid() != parent) _exit(128 + SIGTERM);
  execvpe(arguments[0], arguments, environment);
  const int error = errno;
  if (write(report, &error, sizeof error) < 0) _exit(126);
  _exit(127);
}

// Our child processes, of whichever thread.
std::vector<pid_t> Children() {
  std::vector<pid_t> children;
  std::error_code error;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task", error)) {
    std::ifstream file(task.path() / "children");
    for (pid_t child = 0; file >> child;) children.push_back(child);
  }
  return children;
}

// Collects children that have ended. Returns whether others are left.
bool HasChildren() {
  pid_t ended = 0;
  while ((ended = waitpid(-1, nullptr, WNOHANG)) > 0) {
  }
  return ended == 0;
}

// Makes what descendants leave behind children of this process, and ends it.
class Orphans {
 public:
  Orphans() { prctl(PR_SET_CHILD_SUBREAPER, 1); }
  ~Orphans() { prctl(PR_SET_CHILD_SUBREAPER, 0); }
  Orphans(const Orphans&) = delete;
  Orphans& operator=(const Orphans&) = delete;

  static void End() {
    const absl::Time until = absl::Now() + kGrace;
    // To some programs a second SIGTERM means to hurry.
    std::set<pid_t> told;
    // The end of one makes its children ours, so those are looked for again.
    while (HasChildren()) {
      for (const pid_t child : Children()) {
        if (absl::Now() >= until) {
          kill(child, SIGKILL);
        } else if (told.insert(child).second) {
          kill(child, SIGTERM);
        }
      }
      absl::SleepFor(kStep);
    }
  }

 private:
  static constexpr absl::Duration kGrace = absl::Seconds(2);
  static constexpr absl::Duration kStep = absl::Milliseconds(20);
};

absl::Status CannotStart(const std::string& program, int error) {
  return Error(reason::kUsage, absl::StrCat("cannot start '", program,
                                            "': ", std::generic_category().message(error)))
      .Hint("check that it is installed and in PATH");
}

}  // namespace

absl::StatusOr<int> RunChild(const std::vector<std::string>& command,
                             const std::map<std::string, std::string>& environment) {
  std::vector<std::string> arguments = command;
  std::vector<std::string> variables = MakeEnvironment(environment);
  const std::vector<char*> argument_pointers = Pointers(arguments);
  const std::vector<char*> variable_pointers = Pointers(variables);
  // A successful exec closes it. Otherwise the child writes its errno to it.
  int report[2] = {};
  if (pipe2(report, O_CLOEXEC) != 0) return CannotStart(command[0], errno);
  const Forwarding forwarding;
  const Orphans orphans;
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child == 0) {
    Exec(parent, const_cast<char**>(argument_pointers.data()),
         const_cast<char**>(variable_pointers.data()), report[1]);
  }
  const int fork_error = errno;
  close(report[1]);
  if (child < 0) {
    close(report[0]);
    return CannotStart(command[0], fork_error);
  }
  child_pid = child;
  if (early_signal != 0) kill(child, early_signal);
  int error = 0;
  ssize_t got = 0;
  while ((got = read(report[0], &error, sizeof error)) < 0 && errno == EINTR) {
  }
  close(report[0]);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (got == sizeof error) return CannotStart(command[0], error);
  // Its number may belong to another process from here on.
  child_pid = 0;
  Orphans::End();
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace pto::ptoctl
