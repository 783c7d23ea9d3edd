#pragma once

#include <atomic>
#include <cstdint>

namespace pto::comm {

// Wakes who sleeps until some word in shared memory changes. It is part of that memory: all zero
// is its initial state, and a sleeper that was killed only makes later rings a little slower.
//
// To change:  change the word by a sequentially consistent read-modify-write, then Ring().
// To sleep:   BellSleeper, look at the word once more, then Sleep().
struct Bell {
  std::atomic<uint32_t> rings;
  std::atomic<uint32_t> sleepers;

  void Ring() {
    if (sleepers.load() != 0) RingSlowly();
  }
  void RingSlowly();
};
static_assert(std::atomic<uint32_t>::is_always_lock_free);

// While it lives, every Ring() is seen by Sleep(), also one between the two.
class BellSleeper {
 public:
  explicit BellSleeper(Bell& bell) : bell_(bell) {
    bell.sleepers.fetch_add(1);
    seen_ = bell.rings.load();
  }
  ~BellSleeper() { bell_.sleepers.fetch_sub(1); }
  BellSleeper(const BellSleeper&) = delete;
  BellSleeper& operator=(const BellSleeper&) = delete;

  // Returns after a ring, after `nanos`, or sooner for no reason.
  void Sleep(int64_t nanos);

 private:
  Bell& bell_;
  uint32_t seen_;
};

}  // namespace pto::comm
