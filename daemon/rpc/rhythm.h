#pragma once

#include <atomic>
#include <cstdint>

namespace pto::daemon::rpc {

// Learns from the time between an answer and the next request whether a client asks again at once.
// Then polling for the next request pays, because a wake-up takes longer than the request.
// Thread-safe.
class Rhythm {
 public:
  // Polling does not pay for a client that takes longer than this.
  static constexpr int64_t kQuickNs = 150'000;

  void Asked(int64_t now_ns) {
    const int64_t answered = answered_ns_.load(std::memory_order_relaxed);
    quick_.store(answered != 0 && now_ns - answered < kQuickNs, std::memory_order_relaxed);
  }
  // Returns whether the next request is expected soon.
  bool Answered(int64_t now_ns) {
    answered_ns_.store(now_ns, std::memory_order_relaxed);
    return quick_.load(std::memory_order_relaxed);
  }

 private:
  std::atomic<int64_t> answered_ns_{0};
  std::atomic<bool> quick_{false};
};

}  // namespace pto::daemon::rpc
