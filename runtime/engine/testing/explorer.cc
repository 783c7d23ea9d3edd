#include "runtime/engine/testing/explorer.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/time/time.h"
#include "runtime/base/log.h"

namespace pto::engine::testing {

void Explorer::Run() {
  while (true) {
    const int64_t next_timer = node_.timers.RunDue();
    std::vector<const Source*> sources;
    for (const Source& source : sources_) {
      if (source.can()) sources.push_back(&source);
    }
    const size_t timers = events_.size() + sources.size();
    const size_t others = timers + (next_timer >= 0 ? 1 : 0);
    // As likely as all else together, so that runs get somewhere before events come.
    const size_t chosen = Choose(2 * others + 1);
    if (chosen >= others) {
      if (node_.engine->Step([this](size_t count) { return Choose(count); })) continue;
      if (others == 0) return;
      continue;
    }
    if (chosen < events_.size()) {
      std::swap(events_[chosen], events_.back());
      const std::function<void()> event = std::move(events_.back());
      events_.pop_back();
      event();
    } else if (chosen < timers) {
      sources[chosen - events_.size()]->act();
    } else {
      node_.clock.Advance(absl::Nanoseconds(next_timer - node_.clock.NowNanos()));
    }
  }
}

void Explore(uint64_t schedules, const std::function<void(uint64_t seed)>& scenario) {
  uint64_t first = 0;
  if (const char* const text = std::getenv("PTO_EXPLORE_SEED")) {
    PTO_CHECK(absl::SimpleAtoi(text, &first), "PTO_EXPLORE_SEED is not a number");
    schedules = 1;
  }
  for (uint64_t seed = first; seed < first + schedules; ++seed) {
    scenario(seed);
    if (!::testing::Test::HasFailure()) continue;
    ADD_FAILURE() << "that was seed " << seed << "; PTO_EXPLORE_SEED=" << seed << " repeats it";
    return;
  }
}

}  // namespace pto::engine::testing
