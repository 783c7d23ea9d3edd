#include "runtime/host/post_source.h"

#include <sched.h>

#include <algorithm>
#include <string>

#include "runtime/base/clock.h"
#include "runtime/base/pause.h"
#include "runtime/host/crash_handler.h"
#include "runtime/host/futex.h"

namespace pto::host {
namespace {

// A task of the same chain usually comes within this time.
constexpr int64_t kSpinNs = 5'000;
// To wake a thread takes up to about this time. Posts at longer intervals are worth it.
constexpr int64_t kLongestGapNs = 100'000;
constexpr int kPausesPerLook = 16;

int64_t Now() { return Clock::Real().NowNanos(); }

}  // namespace

bool PostSource::TryTake(std::vector<std::byte>* message) {
  if (!reader_.has_more()) return false;
  MutexLock lock(mutex_);
  const absl::StatusOr<bool> taken = reader_.Read(message);
  if (!taken.ok()) CrashHandler::GiveUp(std::string(taken.status().message()).c_str());
  return *taken;
}

bool PostSource::Spin(int64_t spin_ns, std::vector<std::byte>* message) {
  reader_.BeginSpin();
  const int64_t start_ns = Now();
  bool taken = false;
  int64_t spun_ns = 0;
  while (!(taken = TryTake(message)) && spun_ns < spin_ns) {
    for (int i = 0; i < kPausesPerLook; ++i) Pause();
    // Whoever else wants the processor needs it more.
    if (spun_ns > kSpinNs) sched_yield();
    spun_ns = Now() - start_ns;
  }
  reader_.EndSpin();
  return taken;
}

void PostSource::NotePost() {
  // Of threads that do this at the same time, one counts.
  const int64_t now_ns = Now();
  const int64_t gap_ns =
      std::min(now_ns - last_post_ns_.load(std::memory_order_relaxed), kMostGapNs);
  last_post_ns_.store(now_ns, std::memory_order_relaxed);
  const int64_t typical_ns = typical_gap_ns_.load(std::memory_order_relaxed);
  typical_gap_ns_.store((3 * typical_ns + gap_ns) / 4, std::memory_order_relaxed);
}

void PostSource::Take(std::vector<std::byte>* message) {
  bool taken = TryTake(message);
  const bool waits = !taken;
  while (!taken) {
    const int64_t gap_ns = typical_gap_ns_.load(std::memory_order_relaxed);
    if (gap_ns <= kLongestGapNs && !patient_.exchange(true, std::memory_order_relaxed)) {
      taken = Spin(kSpinNs + 2 * gap_ns, message);
      patient_.store(false, std::memory_order_relaxed);
    } else {
      taken = Spin(kSpinNs, message);
    }
    if (taken) break;
    const uint32_t ticket = reader_.word().load(std::memory_order_seq_cst);
    if (reader_.BeginSleep()) FutexWait(reader_.word(), ticket);
    taken = TryTake(message);
  }
  if (waits) NotePost();
  // This thread is busy now. What came meanwhile needs another one.
  if (reader_.PassOn()) FutexWake(reader_.word(), 1);
}

}  // namespace pto::host
