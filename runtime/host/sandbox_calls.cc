#include <fcntl.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/base/error.h"
#include "runtime/host/control_block.h"
#include "runtime/host/sandbox.h"

// The macros of libseccomp leave out the second operand of a comparison.
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

namespace pto::host {
namespace {

using Filter = std::unique_ptr<void, void (*)(scmp_filter_ctx)>;

absl::Status Unavailable(absl::string_view call, int error) {
  return Error(reason::kNotAvailable,
               absl::StrCat("seccomp: ", call, ": ", std::generic_category().message(-error)));
}

// What computing needs: memory, threads, time, and the files that Landlock leaves. Everything else
// fails with EPERM.
constexpr int kAllowed[] = {
    // files
    SCMP_SYS(read), SCMP_SYS(write), SCMP_SYS(readv), SCMP_SYS(writev), SCMP_SYS(pread64),
    SCMP_SYS(pwrite64), SCMP_SYS(lseek), SCMP_SYS(open), SCMP_SYS(openat), SCMP_SYS(stat),
    SCMP_SYS(fstat), SCMP_SYS(lstat), SCMP_SYS(newfstatat), SCMP_SYS(statx), SCMP_SYS(access),
    SCMP_SYS(faccessat), SCMP_SYS(faccessat2), SCMP_SYS(readlink), SCMP_SYS(readlinkat),
    SCMP_SYS(getdents64), SCMP_SYS(getcwd), SCMP_SYS(dup), SCMP_SYS(ftruncate), SCMP_SYS(fallocate),
    SCMP_SYS(memfd_create), SCMP_SYS(pipe), SCMP_SYS(pipe2), SCMP_SYS(eventfd2), SCMP_SYS(poll),
    SCMP_SYS(ppoll),
    // memory
    SCMP_SYS(brk), SCMP_SYS(mprotect), SCMP_SYS(munmap), SCMP_SYS(mremap), SCMP_SYS(madvise),
    SCMP_SYS(mincore), SCMP_SYS(msync), SCMP_SYS(membarrier),
    // threads
    SCMP_SYS(futex), SCMP_SYS(set_robust_list), SCMP_SYS(get_robust_list), SCMP_SYS(rseq),
    SCMP_SYS(set_tid_address), SCMP_SYS(arch_prctl), SCMP_SYS(sched_yield),
    SCMP_SYS(sched_getaffinity), SCMP_SYS(sched_getparam), SCMP_SYS(sched_getscheduler),
    SCMP_SYS(getcpu), SCMP_SYS(exit), SCMP_SYS(exit_group),
    // signals of its own
    SCMP_SYS(rt_sigaction), SCMP_SYS(rt_sigprocmask), SCMP_SYS(rt_sigreturn), SCMP_SYS(sigaltstack),
    SCMP_SYS(rt_sigpending), SCMP_SYS(pause), SCMP_SYS(restart_syscall),
    // time
    SCMP_SYS(nanosleep), SCMP_SYS(clock_nanosleep), SCMP_SYS(clock_gettime), SCMP_SYS(clock_getres),
    SCMP_SYS(gettimeofday), SCMP_SYS(time), SCMP_SYS(times),
    // what it is
    SCMP_SYS(getpid), SCMP_SYS(gettid), SCMP_SYS(getppid), SCMP_SYS(getuid), SCMP_SYS(geteuid),
    SCMP_SYS(getgid), SCMP_SYS(getegid), SCMP_SYS(getpgrp), SCMP_SYS(uname), SCMP_SYS(sysinfo),
    SCMP_SYS(getrlimit), SCMP_SYS(getrusage), SCMP_SYS(getrandom)};

// Allowed only with this argument.
struct Conditional {
  int call;
  scmp_arg_cmp argument;
};

// Allows the call if its argument is a descriptor that is none of the host's own. A filter compares
// 64 bits, of which the system then uses 32: so the upper ones must be 0.
void AllowOtherDescriptors(int call, unsigned argument, std::vector<Conditional>* out) {
  constexpr scmp_datum_t kFirst = kLastOwnDescriptor + 1;
  constexpr scmp_datum_t kEnd = scmp_datum_t{1} << 21;
  static_assert(kFirst > 0);
  // Ranges whose size is a power of two and whose start is a multiple of it.
  for (scmp_datum_t first = kFirst; first < kEnd;) {
    const scmp_datum_t size = first & (~first + 1);
    out->push_back({call, {argument, SCMP_CMP_MASKED_EQ, ~(size - 1), first}});
    first += size;
  }
}

}  // namespace

absl::Status LimitSystemCalls() {
  const Filter filter(seccomp_init(SCMP_ACT_ERRNO(EPERM)), &seccomp_release);
  if (filter == nullptr) return Unavailable("seccomp_init", -ENOMEM);
  // A tree: a linear list of so many calls would cost a part of a microsecond for each.
  (void)seccomp_attr_set(filter.get(), SCMP_FLTATR_CTL_OPTIMIZE, 2);

  for (const int call : kAllowed) {
    if (const int error = seccomp_rule_add(filter.get(), SCMP_ACT_ALLOW, call, 0); error != 0) {
      return Unavailable(absl::StrCat("call ", call), error);
    }
  }
  constexpr auto kLifeline = static_cast<scmp_datum_t>(kLifelineDescriptor);
  // Shared memory without a file would escape the limit of memory.
  constexpr scmp_datum_t kSharing = MAP_SHARED | MAP_ANONYMOUS;
  std::vector<Conditional> conditional = {
      {SCMP_SYS(recvmsg), SCMP_A0_64(SCMP_CMP_EQ, kLifeline)},
      {SCMP_SYS(sendmsg), SCMP_A0_64(SCMP_CMP_EQ, kLifeline)},
      {SCMP_SYS(clone), SCMP_A0_64(SCMP_CMP_MASKED_EQ, CLONE_THREAD, CLONE_THREAD)},
      {SCMP_SYS(prctl), SCMP_A0_64(SCMP_CMP_EQ, PR_SET_NAME)},
      {SCMP_SYS(prctl), SCMP_A0_64(SCMP_CMP_EQ, PR_GET_NAME)},
      // To read the limits; not to set them.
      {SCMP_SYS(prlimit64), SCMP_A2_64(SCMP_CMP_EQ, 0)},
      // abort() and raise().
      {SCMP_SYS(tgkill), SCMP_A0_64(SCMP_CMP_EQ, static_cast<scmp_datum_t>(getpid()))},
      {SCMP_SYS(mmap), SCMP_A3_64(SCMP_CMP_MASKED_EQ, kSharing, MAP_ANONYMOUS)},
      {SCMP_SYS(mmap), SCMP_A3_64(SCMP_CMP_MASKED_EQ, kSharing, MAP_SHARED)},
      {SCMP_SYS(mmap), SCMP_A3_64(SCMP_CMP_MASKED_EQ, kSharing, 0)},
  };
  AllowOtherDescriptors(SCMP_SYS(close), 0, &conditional);
  AllowOtherDescriptors(SCMP_SYS(close_range), 0, &conditional);
  AllowOtherDescriptors(SCMP_SYS(dup2), 1, &conditional);
  AllowOtherDescriptors(SCMP_SYS(dup3), 1, &conditional);
  // Not F_SETOWN and the like: with them the kernel sends signals to other processes.
  for (const int command :
       {F_DUPFD, F_DUPFD_CLOEXEC, F_GETFD, F_SETFD, F_GETFL, F_ADD_SEALS, F_GET_SEALS}) {
    conditional.push_back(
        {SCMP_SYS(fcntl), SCMP_A1_64(SCMP_CMP_EQ, static_cast<scmp_datum_t>(command))});
  }
  // Of the calling thread only.
  conditional.push_back({SCMP_SYS(sched_setaffinity), SCMP_A0_64(SCMP_CMP_EQ, 0)});
  for (const Conditional& rule : conditional) {
    const int error = seccomp_rule_add(filter.get(), SCMP_ACT_ALLOW, rule.call, 1, rule.argument);
    if (error != 0) return Unavailable(absl::StrCat("call ", rule.call), error);
  }
  // The C library then uses clone, whose flags a filter can see.
  if (const int error = seccomp_rule_add(filter.get(), SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);
      error != 0) {
    return Unavailable("clone3", error);
  }
  const int error = seccomp_load(filter.get());
  return error == 0 ? absl::OkStatus() : Unavailable("seccomp_load", error);
}

}  // namespace pto::host
