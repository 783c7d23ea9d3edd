#pragma once

#include <atomic>
#include <cstdint>

namespace pto::engine {

// The signs of life of one thread that runs blocks, for the one that watches it: see Crew. Written
// by its thread only, at every place where it decides what to do next, but not for each of many
// short tasks.
class alignas(64) Pulse {
 public:
  static constexpr uint64_t kNowhere = 0;
  static uint64_t PlaceOf(uint32_t chip, int32_t core) {
    return uint64_t{chip} << 32 | (static_cast<uint32_t>(core) + 1);
  }
  static uint32_t ChipOf(uint64_t place) { return static_cast<uint32_t>(place >> 32); }
  static int32_t CoreOf(uint64_t place) { return static_cast<int32_t>(place & 0xffffffff) - 1; }

  // ---- for its thread
  // Goes on with what it does.
  void Beat() {
    beats_.store(beats_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  }
  // Looks for something else to do.
  void Move() {
    Beat();
    place_.store(kNowhere, std::memory_order_release);
  }
  // Runs blocks on this core from now on, which shows what they are: see CoreView.
  void Stay(uint32_t chip, int32_t core) {
    place_.store(PlaceOf(chip, core), std::memory_order_release);
  }
  // Before the thread asks whether somebody watches.
  void Rise() { busy_.store(true, std::memory_order_seq_cst); }
  void Rest() { busy_.store(false, std::memory_order_release); }

  // ---- for any thread
  // If it is still the same number, so is the place, and the block that runs there.
  uint64_t beats() const { return beats_.load(std::memory_order_acquire); }
  bool busy() const { return busy_.load(std::memory_order_seq_cst); }
  uint64_t place() const { return place_.load(std::memory_order_acquire); }

 private:
  std::atomic<uint64_t> beats_{0};
  std::atomic<uint64_t> place_{kNowhere};
  std::atomic<bool> busy_{false};
};

}  // namespace pto::engine
