#include "runtime/chip/ascend/doctor/child_output.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "absl/time/clock.h"
#include "runtime/base/file_descriptor.h"

namespace pto::ascend {
namespace {

// For a process that was killed to be gone.
constexpr absl::Duration kDeathTime = absl::Seconds(1);

std::vector<char*> Pointers(std::vector<std::string>& texts) {
  std::vector<char*> out;
  out.reserve(texts.size() + 1);
  for (std::string& text : texts) out.push_back(text.data());
  out.push_back(nullptr);
  return out;
}

// Waits until the descriptor can be read, but not longer than that.
bool AwaitReadable(int descriptor, absl::Time until) {
  while (true) {
    const absl::Duration left = std::max(until - absl::Now(), absl::ZeroDuration());
    pollfd ready = {descriptor, POLLIN, 0};
    if (poll(&ready, 1, static_cast<int>(absl::ToInt64Milliseconds(left)) + 1) > 0) return true;
    if (left == absl::ZeroDuration()) return false;
  }
}

// Reads until the end, or until the time is over. All of it, so that the writer never waits; what
// is too much is dropped.
void ReadAll(int from, absl::Time until, std::string* out) {
  char buffer[4096];
  while (AwaitReadable(from, until)) {
    const ssize_t got = read(from, buffer, sizeof buffer);
    if (got <= 0) return;
    const size_t room = ChildOutput::kMostBytes - out->size();
    out->append(buffer, std::min(room, static_cast<size_t>(got)));
    if (absl::Now() > until) return;
  }
}

}  // namespace

ChildOutput RunChild(std::vector<std::string> arguments, std::vector<std::string> environment,
                     absl::Duration timeout) {
  ChildOutput child;
  int pipes[2];
  if (pipe2(pipes, O_CLOEXEC) != 0) {
    child.error = errno;
    return child;
  }
  const FileDescriptor from(pipes[0]);
  FileDescriptor to(pipes[1]);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_adddup2(&files, to.get(), STDOUT_FILENO);
  const std::vector<char*> argv = Pointers(arguments);
  const std::vector<char*> envp = Pointers(environment);
  pid_t pid = -1;
  child.error = posix_spawn(&pid, argv[0], &files, nullptr, argv.data(), envp.data());
  posix_spawn_file_actions_destroy(&files);
  to = FileDescriptor();
  if (child.error != 0) return child;
  const FileDescriptor pidfd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  const absl::Time until = absl::Now() + timeout;
  ReadAll(from.get(), until, &child.text);
  // The end of its output need not be its own.
  child.ended = AwaitReadable(pidfd.get(), until);
  if (!child.ended) {
    kill(pid, SIGKILL);
    if (!AwaitReadable(pidfd.get(), absl::Now() + kDeathTime)) return child;
  }
  int status = 0;
  waitpid(pid, &status, 0);
  if (child.ended) child.status = status;
  return child;
}

}  // namespace pto::ascend
