#pragma once

#include <algorithm>
#include <cstdint>

#include "runtime/base/ticks.h"
#include "runtime/engine/run/run.h"

namespace pto::engine {

// How many tasks a lane gets with one post: as many as take a fifth of a millisecond together. So
// others do not wait for long for the core, and the costs of a post, some 20 us on a busy machine,
// are small beside its tasks.
struct TrainRule {
  static uint64_t MostTicks() {
    constexpr double kMicroseconds = 200;
    static const auto ticks = static_cast<uint64_t>(kMicroseconds * TicksPerMicrosecond());
    return ticks;
  }

  // How long a call of the task's kernel takes; 0: nobody knows.
  static uint64_t TicksOf(const Run& run, uint32_t task) {
    const GraphImage& image = run.image();
    return image.shared_kernels()[image.tasks()[task].kernel]->lane_ticks();
  }

  // How many tasks like this one, which is Run::IsLanePlain, a train may have; 1: it runs alone.
  static uint32_t StepsLike(const Run& run, uint32_t task) {
    const uint64_t ticks = TicksOf(run, task);
    if (ticks == 0) return 1;
    return static_cast<uint32_t>(std::clamp<uint64_t>(MostTicks() / ticks, 1, UINT32_MAX));
  }
};

}  // namespace pto::engine
