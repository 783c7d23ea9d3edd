#include "runtime/host/host_process.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <new>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "runtime/base/error.h"
#include "runtime/base/status_macros.h"

namespace pto::host {
namespace {

absl::Status CannotStart(absl::string_view what, int error) {
  return Error(reason::kHostLost, absl::StrCat("a kernel host cannot be started: ", what, ": ",
                                               std::generic_category().message(error)));
}

// Away from the numbers that the new process gets, so that none is replaced before it is copied.
absl::Status MoveUp(FileDescriptor* descriptor) {
  constexpr int kAbove = 16;
  FileDescriptor moved(fcntl(descriptor->get(), F_DUPFD_CLOEXEC, kAbove));
  if (!moved.valid()) return CannotStart("fcntl", errno);
  *descriptor = std::move(moved);
  return absl::OkStatus();
}

absl::StatusOr<FileDescriptor> MakeControl(ControlBlock** block) {
  FileDescriptor file(memfd_create("ptod-host", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file.valid()) return CannotStart("memfd_create", errno);
  // All pages now: a page that is missing later would be a signal in the daemon.
  if (posix_fallocate(file.get(), 0, sizeof(ControlBlock)) != 0) {
    return CannotStart("fallocate", ENOMEM);
  }
  if (fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return CannotStart("F_ADD_SEALS", errno);
  }
  void* const data =
      mmap(nullptr, sizeof(ControlBlock), PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (data == MAP_FAILED) return CannotStart("mmap", errno);
  *block = static_cast<ControlBlock*>(data);
  (*block)->SetGuards();
  return file;
}

// What posix_spawn wants, released in the end.
struct Spawn {
  Spawn() {
    posix_spawn_file_actions_init(&files);
    posix_spawnattr_init(&attributes);
  }
  ~Spawn() {
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&attributes);
  }
  Spawn(const Spawn&) = delete;
  Spawn& operator=(const Spawn&) = delete;

  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
};

std::vector<char*> Pointers(std::vector<std::string>& texts) {
  std::vector<char*> out;
  out.reserve(texts.size() + 1);
  for (std::string& text : texts) out.push_back(text.data());
  out.push_back(nullptr);
  return out;
}

}  // namespace

absl::StatusOr<std::unique_ptr<HostProcess>> HostProcess::Start(const HostCommand& command) {
  std::unique_ptr<HostProcess> host(new HostProcess);
  PTO_ASSIGN_OR_RETURN(FileDescriptor control, MakeControl(&host->control_));

  int pair[2] = {-1, -1};
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) {
    return CannotStart("socketpair", errno);
  }
  host->lifeline_ = FileDescriptor(pair[0]);
  FileDescriptor lifeline(pair[1]);
  int pipes[2] = {-1, -1};
  if (pipe2(pipes, O_CLOEXEC) != 0) return CannotStart("pipe2", errno);
  host->output_ = FileDescriptor(pipes[0]);
  FileDescriptor output(pipes[1]);
  fcntl(host->output_.get(), F_SETFL, O_NONBLOCK);
  host->doorbell_ = FileDescriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!host->doorbell_.valid()) return CannotStart("eventfd", errno);
  FileDescriptor doorbell(fcntl(host->doorbell_.get(), F_DUPFD_CLOEXEC, 0));
  FileDescriptor null(open("/dev/null", O_RDWR | O_CLOEXEC));
  for (FileDescriptor* const descriptor : {&control, &lifeline, &output, &doorbell, &null}) {
    PTO_RETURN_IF_ERROR(MoveUp(descriptor));
  }

  // posix_spawn shares the daemon's memory until exec: fork would copy its page tables, and let
  // busy threads fault on every page that they write next.
  Spawn spawn;
  posix_spawn_file_actions_adddup2(&spawn.files, null.get(), STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&spawn.files, output.get(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&spawn.files, output.get(), STDERR_FILENO);
  posix_spawn_file_actions_adddup2(&spawn.files, lifeline.get(), kLifelineDescriptor);
  posix_spawn_file_actions_adddup2(&spawn.files, control.get(), kControlDescriptor);
  posix_spawn_file_actions_adddup2(&spawn.files, doorbell.get(), kDoorbellDescriptor);
  posix_spawn_file_actions_addclosefrom_np(&spawn.files, kLastOwnDescriptor + 1);
  sigset_t none;
  sigset_t all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&spawn.attributes, &none);
  posix_spawnattr_setsigdefault(&spawn.attributes, &all);
  // A session of its own: signals of the daemon's terminal are not for it.
  posix_spawnattr_setflags(&spawn.attributes,
                           POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSID);

  std::vector<std::string> arguments = command.arguments;
  std::vector<std::string> environment = {
      "LANG=C",
      "PATH=/usr/bin:/bin",
      // What PTO kernels read: a wait that gives up would be a wrong result without an error, and
      // the largest on-chip memory suits all.
      "PTO_CPU_SIM_TWAIT_MAX_SPINS=0",
      "PTO_CPU_SIM_L0C_BYTES=262144",
  };
  environment.insert(environment.end(), command.environment.begin(), command.environment.end());
  const std::vector<char*> argv = Pointers(arguments);
  const std::vector<char*> envp = Pointers(environment);
  pid_t pid = -1;
  const int error =
      posix_spawn(&pid, argv[0], &spawn.files, &spawn.attributes, argv.data(), envp.data());
  if (error != 0) return CannotStart(argv[0], error);
  host->pid_ = pid;
  host->pidfd_ = FileDescriptor(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  if (!host->pidfd_.valid()) return CannotStart("pidfd_open", errno);
  return host;
}

HostProcess::~HostProcess() {
  if (pid_ > 0) {
    Kill();
    Reap();
  }
  if (control_ != nullptr) munmap(control_, sizeof(ControlBlock));
}

void HostProcess::Kill() const {
  if (pidfd_.valid()) {
    syscall(SYS_pidfd_send_signal, pidfd_.get(), SIGKILL, nullptr, 0);
  } else if (!reaped_) {
    kill(pid_, SIGKILL);
  }
}

bool HostProcess::AwaitEnd(int pidfd, absl::Duration timeout) {
  const absl::Time until = absl::Now() + timeout;
  while (true) {
    pollfd ended = {pidfd, POLLIN, 0};
    const absl::Duration left = std::max(until - absl::Now(), absl::ZeroDuration());
    const int ready = poll(&ended, 1, static_cast<int>(absl::ToInt64Milliseconds(left)) + 1);
    if (ready > 0) return true;
    if (left == absl::ZeroDuration()) return false;
  }
}

HostProcess::End HostProcess::Reap() {
  if (reaped_) return end_;
  int status = 0;
  pid_t waited = 0;
  do {
    waited = waitpid(pid_, &status, 0);
  } while (waited < 0 && errno == EINTR);
  reaped_ = true;
  if (waited == pid_) {
    end_.signalled = WIFSIGNALED(status);
    end_.number = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
  }
  return end_;
}

}  // namespace pto::host
