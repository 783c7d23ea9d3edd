#pragma once

#include <atomic>
#include <cstdint>

namespace pto::host {

// How far a host is in a train, in one word of the control block: how many steps it has begun, and
// how many it may begin. The host raises the first number, and either side lowers the second one to
// the first: then the other steps are not begun any more. All functions are thread-safe.
class TrainCursor {
 public:
  struct Place {
    uint32_t begun = 0;
    uint32_t end = 0;
  };

  explicit TrainCursor(std::atomic<uint64_t>& word) : word_(word) {}

  void Start(uint32_t steps) { word_.store(Pack({0, steps}), std::memory_order_relaxed); }
  Place Read() const { return Unpack(word_.load(std::memory_order_acquire)); }

  // The host begins the step. Returns false if it must not.
  bool Begin(uint32_t step) {
    uint64_t seen = word_.load(std::memory_order_relaxed);
    do {
      if (Unpack(seen).end <= step) return false;
    } while (!word_.compare_exchange_weak(seen, Pack({step + 1, Unpack(seen).end}),
                                          std::memory_order_acq_rel));
    return true;
  }

  // No step is begun any more after those that were, unless there are none. Returns where the train
  // is now.
  Place End() {
    uint64_t seen = word_.load(std::memory_order_acquire);
    while (true) {
      const Place place = Unpack(seen);
      if (place.begun == 0) return place;
      if (word_.compare_exchange_weak(seen, Pack({place.begun, place.begun}),
                                      std::memory_order_acq_rel)) {
        return {place.begun, place.begun};
      }
    }
  }

 private:
  static uint64_t Pack(Place place) { return uint64_t{place.end} << 32 | place.begun; }
  static Place Unpack(uint64_t word) {
    return {static_cast<uint32_t>(word), static_cast<uint32_t>(word >> 32)};
  }

  std::atomic<uint64_t>& word_;
};

}  // namespace pto::host
