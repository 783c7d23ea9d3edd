#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace pto::engine {

// Chains of writers in which each writer waits for the previous one. An access that waits for a
// writer also waits for all earlier writers of the chain, without naming them or comparing its
// region with theirs.
//
// Where many written regions overlap, there are few chains, and most writers can be skipped. Kept
// by region number, only for regions in such places. Not thread-safe.
class WriterChains {
 public:
  // Begins an access. Forgets all regions met before.
  void Begin();
  // A region is near that was last written by this writer and not read since.
  void Meet(uint32_t region, uint32_t writer);
  // The newest region of each chain that was met.
  struct Newest {
    uint32_t region;
    uint32_t chain;
    uint32_t position;
  };
  const std::vector<Newest>& newest() const { return newest_; }
  // The access waits for the writer of that region.
  void Wait(const Newest& newest) { slots_[newest.chain].waits = true; }
  // Whether the access waits for this writer of the region implicitly, because it waits for a later
  // writer of the same chain.
  bool IsImplied(uint32_t region, uint32_t writer) const;

  // The access writes the region: it extends one of the chains that it waits for, or begins a new
  // one.
  void Write(uint32_t region, uint32_t writer);

  size_t bytes() const;

 private:
  struct Place {
    uint32_t writer =
        0;  // of the region when this was recorded; the entry is invalid for any other writer
    uint32_t chain = 0;
    uint32_t position = 0;
  };
  struct Chain {
    uint32_t length = 0;
    // For the current access.
    uint32_t newest = kNone;
    bool waits = false;
  };
  static constexpr uint32_t kNone = 0xffffffff;
  static constexpr size_t kMostChains = 1024;

  const Place* Find(uint32_t region, uint32_t writer) const {
    if (region >= places_.size() || places_[region].writer != writer) return nullptr;
    return &places_[region];
  }

  std::vector<Place> places_;  // by region
  std::vector<Chain> slots_;   // by chain
  std::vector<Newest> newest_;
};

}  // namespace pto::engine
