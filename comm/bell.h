#pragma once

#include <atomic>
#include <cstdint>

namespace pto::comm {

// Wakes who sleeps until some word in shared memory changes. It is part of that memory: all zero
// is its initial state, and a sleeper that was killed only makes later rings a little slower.
//
// To change:  change the word, then Ring().
// To sleep:   BellSleeper; then in turn Listen(), look at the word once more, and Sleep().
//
// Nothing keeps the CPU from looking for sleepers before others see the changed word: that would
// cost more than a short collective. So who has just begun to sleep can miss a ring. Its first
// sleep is short, and after that the word is seen.
struct Bell {
  std::atomic<uint32_t> rings;
  std::atomic<uint32_t> sleepers;

  void Ring() {
    if (sleepers.load(std::memory_order_relaxed) != 0) RingSlowly();
  }
  void RingSlowly();
};
static_assert(std::atomic<uint32_t>::is_always_lock_free);

class BellSleeper {
 public:
  explicit BellSleeper(Bell& bell) : bell_(bell) { bell.sleepers.fetch_add(1); }
  ~BellSleeper() { bell_.sleepers.fetch_sub(1); }
  BellSleeper(const BellSleeper&) = delete;
  BellSleeper& operator=(const BellSleeper&) = delete;

  // From here on every ring ends the next Sleep().
  void Listen() { heard_ = bell_.rings.load(); }
  // Returns after a ring, after `nanos`, or sooner for no reason.
  void Sleep(int64_t nanos);

 private:
  // Far longer than a store can take to be seen.
  static constexpr int64_t kFirstNanos = 50'000;

  Bell& bell_;
  uint32_t heard_ = 0;
  bool first_ = true;
};

}  // namespace pto::comm
