#include "runtime/host/post_source.h"

#include <chrono>
#include <string>

#include "runtime/base/pause.h"
#include "runtime/host/crash_handler.h"
#include "runtime/host/futex.h"

namespace pto::host {
namespace {

// A task of the same chain usually comes within this time.
constexpr std::chrono::microseconds kSpin(5);
constexpr int kPausesPerLook = 16;

}  // namespace

bool PostSource::TryTake(std::vector<std::byte>* message) {
  if (!reader_.has_more()) return false;
  MutexLock lock(mutex_);
  const absl::StatusOr<bool> taken = reader_.Read(message);
  if (!taken.ok()) CrashHandler::GiveUp(std::string(taken.status().message()).c_str());
  return *taken;
}

void PostSource::Take(std::vector<std::byte>* message) {
  using Clock = std::chrono::steady_clock;
  bool taken = TryTake(message);
  while (!taken) {
    reader_.BeginSpin();
    for (const Clock::time_point until = Clock::now() + kSpin;
         !(taken = TryTake(message)) && Clock::now() < until;) {
      for (int i = 0; i < kPausesPerLook; ++i) Pause();
    }
    reader_.EndSpin();
    if (taken) break;
    const uint32_t ticket = reader_.word().load(std::memory_order_seq_cst);
    if (reader_.BeginSleep()) FutexWait(reader_.word(), ticket);
    taken = TryTake(message);
  }
  // This thread is busy now. What came meanwhile needs another one.
  if (reader_.PassOn()) FutexWake(reader_.word(), 1);
}

}  // namespace pto::host
