#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace pto::daemon {

// Divides memory among the messages that ReadBuffer calls have sent and their clients have not
// read. A message may have an eighth of what is left, but a call always gets some: so clients that
// do not read make the messages of others smaller, and neither stop them nor take more than the
// budget. Thread-safe.
class UnreadBytes {
 public:
  // Twice as many bytes are held: a message, and what gRPC has made of it.
  static constexpr int64_t kBudget = int64_t{128} << 20;
  static constexpr uint64_t kLeast = 64 << 10;

  // How many of `wanted` bytes the next message may have.
  uint64_t Take(uint64_t wanted) {
    const int64_t left = kBudget - used_.load(std::memory_order_relaxed);
    const uint64_t share = std::max(kLeast, static_cast<uint64_t>(std::max<int64_t>(left, 0)) / 8);
    const uint64_t taken = std::min(wanted, share);
    used_.fetch_add(static_cast<int64_t>(taken), std::memory_order_relaxed);
    return taken;
  }
  // The message has been read, or will never be.
  void GiveBack(uint64_t bytes) {
    used_.fetch_sub(static_cast<int64_t>(bytes), std::memory_order_relaxed);
  }

 private:
  std::atomic<int64_t> used_{0};
};

}  // namespace pto::daemon
