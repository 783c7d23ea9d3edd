#pragma once

#include <atomic>
#include <cstdint>

namespace pto {

// Core time that somebody has used, in ticks (runtime/base/ticks.h) of one core. Thread-safe.
class CoreTime {
 public:
  void Add(uint64_t ticks) { ticks_.fetch_add(ticks, std::memory_order_relaxed); }
  // What was added since the last call.
  uint64_t Take() { return ticks_.exchange(0, std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> ticks_{0};
};

}  // namespace pto
