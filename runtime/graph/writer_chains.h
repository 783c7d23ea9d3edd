#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace pto {

// Chains of writers, each of which waits for the one before it in its chain. Who waits for one of
// them so waits for all that are before it in the chain, without naming them or even looking
// whether it overlaps what they wrote.
//
// Where many regions overlap that are written, there are few chains, and most of them can be
// passed over. Kept for regions, by number, and only for those that come to such places.
// Not thread-safe.
class WriterChains {
 public:
  // Begins an access. All that was met before is forgotten.
  void Begin();
  // A region is near that was written last by this writer, and is not read since.
  void Meet(uint32_t region, uint32_t writer);
  // Of each chain that was met, the newest region.
  struct Newest {
    uint32_t region;
    uint32_t chain;
    uint32_t position;
  };
  const std::vector<Newest>& newest() const { return newest_; }
  // The access waits for the writer of that one.
  void Wait(const Newest& newest) { slots_[newest.chain].waits = true; }
  // Whether the access waits for this writer of a region because of another one, which comes later
  // in its chain.
  bool IsImplied(uint32_t region, uint32_t writer) const;

  // The access is a write of the region by this writer: it goes on with one of the chains that it
  // waits for, or begins one.
  void Write(uint32_t region, uint32_t writer);

  size_t bytes() const;

 private:
  struct Place {
    uint32_t writer = 0;  // of the region, when this was noted; another one has no place
    uint32_t chain = 0;
    uint32_t position = 0;
  };
  struct Chain {
    uint32_t length = 0;
    // Of the access at hand.
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

}  // namespace pto
