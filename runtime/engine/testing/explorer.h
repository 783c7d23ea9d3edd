#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "runtime/engine/testing/slow_testing.h"

namespace pto::engine::testing {

// Lets one order of events after the other happen on an engine without executors. All that is
// left to chance comes from a seed, so that a seed stands for one order for ever.
class Explorer {
 public:
  Explorer(SlowEngine& node, uint64_t seed) : node_(node), random_(seed) {}

  // A number below `count`.
  size_t Choose(size_t count) { return static_cast<size_t>(random_() % count); }
  bool OneOf(size_t count) { return Choose(count) == 0; }

  // Something from outside that happens once, at any time.
  void Add(std::function<void()> event) { events_.push_back(std::move(event)); }
  // Something that can happen again and again, whenever `can` returns true.
  void AddSource(std::function<bool()> can, std::function<void()> act) {
    sources_.push_back({std::move(can), std::move(act)});
  }

  // Lets things happen until nothing can any more: blocks begin or go on, errands are done,
  // events and sources come, and time passes to the next timer.
  void Run();

 private:
  SlowEngine& node_;
  std::mt19937_64 random_;
  std::vector<std::function<void()>> events_;
  struct Source {
    std::function<bool()> can;
    std::function<void()> act;
  };
  std::vector<Source> sources_;
};

// Calls `scenario` with the seeds 0 to `schedules` (not included), up to the first that fails,
// which it names. The environment variable PTO_EXPLORE_SEED chooses one seed instead.
void Explore(uint64_t schedules, const std::function<void(uint64_t seed)>& scenario);

}  // namespace pto::engine::testing
