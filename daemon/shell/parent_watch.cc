#include "daemon/shell/parent_watch.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/error.h"

namespace pto::daemon {
namespace {

// How often to look where the end of a process cannot be waited for.
constexpr int kLookMs = 200;
constexpr int kForever = -1;

}  // namespace

absl::StatusOr<std::unique_ptr<ParentWatch>> ParentWatch::Start(pid_t parent,
                                                                std::function<void()> gone) {
  // First this, then the comparison: so the descriptor cannot be that of another process with the
  // same number.
  FileDescriptor process(static_cast<int>(syscall(SYS_pidfd_open, parent, 0)));
  if (getppid() != parent) {
    return Error(reason::kConfigInvalid,
                 absl::StrCat("process ", parent, " did not start this one, or has ended"))
        .At("exit-with");
  }
  FileDescriptor stop(eventfd(0, EFD_CLOEXEC));
  if (!stop.valid()) {
    return Error(reason::kConfigInvalid,
                 absl::StrCat("cannot watch process ", parent, ": ", std::strerror(errno)))
        .At("exit-with");
  }
  return std::unique_ptr<ParentWatch>(
      new ParentWatch(parent, std::move(process), std::move(stop), std::move(gone)));
}

ParentWatch::ParentWatch(pid_t parent, FileDescriptor process, FileDescriptor stop,
                         std::function<void()> gone)
    : parent_(parent),
      process_(std::move(process)),
      stop_(std::move(stop)),
      gone_(std::move(gone)),
      thread_([this] { Run(); }) {}

ParentWatch::~ParentWatch() {
  eventfd_write(stop_.get(), 1);
  thread_.join();
}

void ParentWatch::Run() {
  pollfd waits[] = {{stop_.get(), POLLIN, 0}, {process_.get(), POLLIN, 0}};
  const nfds_t count = process_.valid() ? 2 : 1;
  while (true) {
    const int ready = poll(waits, count, process_.valid() ? kForever : kLookMs);
    if (ready < 0 && errno == EINTR) continue;
    if (waits[0].revents != 0) return;
    if (ready < 0 || waits[1].revents != 0 || getppid() != parent_) break;
  }
  gone_();
}

}  // namespace pto::daemon
