#include "runtime/engine/testing/engine_watch.h"

#include <gtest/gtest.h>

#include <chrono>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace pto::engine::testing {
namespace {

using SteadyClock = std::chrono::steady_clock;

// A state that must not last.
class Lasting {
 public:
  // Returns whether it has lasted too long. `progress` is a number that changes when something
  // happens.
  bool Look(bool now, uint64_t progress) {
    if (!now || progress != progress_) {
      since_ = SteadyClock::now();
      progress_ = progress;
    }
    return now && SteadyClock::now() - since_ > std::chrono::seconds(1);
  }

 private:
  SteadyClock::time_point since_ = SteadyClock::now();
  uint64_t progress_ = 0;
};

}  // namespace

EngineWatch::EngineWatch(const Engine& engine) : engine_(engine), thread_([this] { Loop(); }) {}

EngineWatch::~EngineWatch() {
  stop_.store(true, std::memory_order_relaxed);
  thread_.join();
  EXPECT_EQ(complaint(), "");
}

void EngineWatch::Complain(std::string what) {
  MutexLock lock(mutex_);
  if (complaint_.empty()) complaint_ = std::move(what);
}

std::string EngineWatch::complaint() {
  MutexLock lock(mutex_);
  return complaint_;
}

void EngineWatch::Loop() {
  const auto chips = static_cast<uint32_t>(engine_.chips().size());
  std::vector<Lasting> asleep(chips);
  std::vector<Lasting> reserving(chips);
  while (!stop_.load(std::memory_order_relaxed)) {
    for (uint32_t chip = 0; chip < chips; ++chip) {
      const uint64_t progress = engine_.chip_use(chip).ended_tasks;
      if (asleep[chip].Look(engine_.IsAsleepOver(chip), progress)) {
        Complain(absl::StrCat("chip ", chip, ": tasks wait while an executor sleeps"));
      }
      if (reserving[chip].Look(engine_.reserving(chip), progress)) {
        Complain(absl::StrCat("chip ", chip, ": cores stand idle for a reservation"));
      }
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

}  // namespace pto::engine::testing
