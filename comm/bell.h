#pragma once

#include <atomic>
#include <cstdint>

namespace pto::comm {

// Wakes threads that sleep until a word in shared memory changes. It is part of that memory: zero
// is its initial state, and a sleeper that was killed only makes later rings slightly slower.
//
// To change:  change the word, then Ring().
// To sleep:   BellSleeper; then in turn Listen(), look at the word once more, and Sleep().
//
// Ring() has no fence, which would cost more than a short collective. The compiler keeps the change
// before the check for sleepers, and so does aarch64 if the change is a release; x86 may check
// while the change is not yet visible to others. So a thread that has just begun to sleep can miss
// a ring. Therefore its sleeps are short until it has slept much longer than a store takes to
// become visible.
struct Bell {
  std::atomic<uint32_t> rings;
  std::atomic<uint32_t> sleepers;

  void Ring() {
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if (sleepers.load(std::memory_order_seq_cst) != 0) RingSlowly();
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

  // Every ring after this call ends the next Sleep().
  void Listen() { heard_ = bell_.rings.load(); }
  // Returns after a ring, after `nanos`, or spuriously.
  void Sleep(int64_t nanos);

 private:
  // Far longer than a store can take to be seen.
  static constexpr int64_t kShortNanos = 50'000;

  Bell& bell_;
  uint32_t heard_ = 0;
  bool unsure_ = true;  // whether a change without a ring may still come
};

}  // namespace pto::comm
