#include "comm/bell.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>

namespace pto::comm {

void Bell::RingSlowly() {
  rings.fetch_add(1);
  syscall(SYS_futex, &rings, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void BellSleeper::Sleep(int64_t nanos) {
  if (unsure_) nanos = std::min(nanos, kShortNanos);
  if (nanos <= 0) return;
  const timespec timeout{.tv_sec = nanos / 1'000'000'000, .tv_nsec = nanos % 1'000'000'000};
  const long result = syscall(SYS_futex, &bell_.rings, FUTEX_WAIT, heard_, &timeout, nullptr, 0);
  const bool slept_through = result != 0 && errno == ETIMEDOUT;
  if (slept_through && nanos >= kShortNanos) unsure_ = false;
}

}  // namespace pto::comm
