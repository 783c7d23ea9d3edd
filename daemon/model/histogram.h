#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace pto::daemon::metrics {

// Counts durations by length. Thread-safe: adding takes two relaxed additions.
class Histogram {
 public:
  // Three for each power of ten, from a microsecond to a minute and a half.
  static constexpr std::array<int64_t, 25> kBoundsNs = {
      1'000,         2'000,          5'000,          10'000,         20'000,
      50'000,        100'000,        200'000,        500'000,        1'000'000,
      2'000'000,     5'000'000,      10'000'000,     20'000'000,     50'000'000,
      100'000'000,   200'000'000,    500'000'000,    1'000'000'000,  2'000'000'000,
      5'000'000'000, 10'000'000'000, 20'000'000'000, 50'000'000'000, 100'000'000'000};

  struct Snapshot {
    // The last counts durations beyond all bounds.
    std::array<uint64_t, kBoundsNs.size() + 1> counts = {};
    uint64_t sum_ns = 0;

    void Add(const Snapshot& other) {
      for (size_t i = 0; i < counts.size(); ++i) counts[i] += other.counts[i];
      sum_ns += other.sum_ns;
    }
  };

  void Observe(int64_t ns) {
    if (ns < 0) ns = 0;
    counts_[PlaceOf(ns)].fetch_add(1, std::memory_order_relaxed);
    sum_ns_.fetch_add(static_cast<uint64_t>(ns), std::memory_order_relaxed);
  }

  Snapshot Look() const {
    Snapshot snapshot;
    for (size_t i = 0; i < counts_.size(); ++i) {
      snapshot.counts[i] = counts_[i].load(std::memory_order_relaxed);
    }
    snapshot.sum_ns = sum_ns_.load(std::memory_order_relaxed);
    return snapshot;
  }

 private:
  // A bound belongs to what is below it.
  static size_t PlaceOf(int64_t ns) {
    size_t place = 0;
    while (place < kBoundsNs.size() && ns > kBoundsNs[place]) ++place;
    return place;
  }

  std::array<std::atomic<uint64_t>, kBoundsNs.size() + 1> counts_ = {};
  std::atomic<uint64_t> sum_ns_{0};
};

}  // namespace pto::daemon::metrics
