#include "comm/bell.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <utility>

namespace pto::comm {

void Bell::RingSlowly() {
  rings.fetch_add(1);
  syscall(SYS_futex, &rings, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void BellSleeper::Sleep(int64_t nanos) {
  if (std::exchange(first_, false)) nanos = std::min(nanos, kFirstNanos);
  if (nanos <= 0) return;
  const timespec timeout{.tv_sec = nanos / 1'000'000'000, .tv_nsec = nanos % 1'000'000'000};
  syscall(SYS_futex, &bell_.rings, FUTEX_WAIT, heard_, &timeout, nullptr, 0);
}

}  // namespace pto::comm
