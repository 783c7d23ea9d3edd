#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "runtime/graph/big_vector.h"
#include "runtime/graph/footprint.h"
#include "runtime/graph/layout.h"
#include "runtime/graph/region_index.h"
#include "runtime/graph/work_budget.h"
#include "runtime/graph/writer_chains.h"

namespace pto {

// Says what an access to memory has to wait for. Accesses come in program order; each has an
// owner, such as a task, and touches a region, a layout at a place of a memory space. A read
// waits for earlier writes of the same bytes (RAW), a write for earlier reads and writes (WAR,
// WAW). Together with those that come out of other pairs, the owners that are named order all
// accesses that need it.
//
// Kept for each region: its last writer, and the readers since. A write that covers another
// region drops what is kept for that one, as whoever comes later has to wait for the write. So
// what is kept is at most one writer for each region, and as many readers as there were since
// the last write that covers theirs.
//
// A region that no other one overlaps costs the same however many there are. Those that do
// overlap are looked for once, until one of the others is used again. Where many regions are only
// read, they do not look at each other at all; where many are written, most of their writers are
// passed over because they are before one that is waited for anyway (WriterChains).
//
// All work is counted in a budget. When that ends it, accesses do nothing any more, and what was
// found is of no use; the caller has to look at budget() after its accesses.
//
// Spaces are numbers of the caller's, best small ones; it sees to it that the same memory is
// always the same space. Owners are numbers that must not fall, below kMaxOwner.
// Not thread-safe.
class AccessMap {
 public:
  static constexpr uint32_t kMaxOwner = 0xfffffffe;

  AccessMap() : AccessMap(WorkBudget()) {}
  explicit AccessMap(WorkBudget budget) : budget_(std::move(budget)) {}

  // The number of what the layout touches; the same for layouts that touch the same bytes. The
  // layout must come from MakeLayout.
  uint32_t AddFootprint(const Layout& layout);
  // Returns the new region's index, which counts from 0. `begin` is in bytes, at least 0.
  // Regions that are the same are as good as one.
  uint32_t AddRegion(uint32_t space, uint32_t footprint, int64_t begin) {
    Region region;
    region.begin = begin;
    region.footprint = footprint;
    region.space = space;
    table_.regions.push_back(region);
    if (space >= spaces_.size()) spaces_.resize(size_t{space} + 1);
    return static_cast<uint32_t>(table_.regions.size() - 1);
  }

  // Fetches what is known of a region into the cache, ahead of an access.
  void Prefetch(uint32_t region) const { __builtin_prefetch(&table_.regions[region], 1); }

  // The owner reads or writes the region; a write may read too. Appends the owners that it has
  // to wait for, never itself, but perhaps one more than once. An owner's accesses are one in
  // the eyes of others: it does not wait between them.
  void Read(uint32_t owner, uint32_t region, std::vector<uint32_t>& before) {
    if (!IsReady(region, Region::kReadChecks)) {
      region = Prepare(owner, region, false, before);
      if (region == kNone) return;
    }
    Region& own = table_.regions[region];
    Name(own.writer, owner, before);
    // Whoever has to wait for the read waits for the owner's write anyway.
    if (own.writer != owner + 1) AddReader(own, owner);
  }
  void Write(uint32_t owner, uint32_t region, std::vector<uint32_t>& before) {
    if (!IsReady(region, Region::kWriteChecks)) {
      region = Prepare(owner, region, true, before);
      if (region == kNone) return;
    }
    Region& own = table_.regions[region];
    if ((own.flags & kAnyReader) == 0) {
      Name(own.writer, owner, before);
    } else {
      // The readers wait for the writer.
      if (!NameReaders(own, 0, owner, before)) Name(own.writer, owner, before);
      DropReaders(own);
    }
    own.writer = owner + 1;
  }

  // Whether an owner came across an access of its own since the last call of this: it used the
  // same bytes twice, and wrote them at least once.
  bool TakeMetItself() { return met_itself_ && std::exchange(met_itself_, false); }

  // All owners below this one have ended: none is named any more, and what is kept for them
  // goes, though not at once.
  void ForgetBefore(uint32_t owner);

  // Regions that something is kept for.
  uint32_t live_regions() const { return live_; }
  // Readers that are kept.
  size_t live_readers() const { return readers_; }
  // Pairs of regions that were compared so far.
  uint64_t compared() const { return compared_; }
  // All work beside the accesses themselves: comparisons of regions and what they took, cells and
  // regions that searches went through, and steps from a region to the one that stands for it.
  const WorkBudget& budget() const { return budget_; }
  WorkBudget& budget() { return budget_; }
  // The region whose access the budget ended; of no meaning if it was no access.
  uint32_t stopped_at() const { return stopped_at_; }
  // Memory that it holds.
  size_t bytes() const;

 private:
  static constexpr uint32_t kNone = 0xffffffff;
  static constexpr uint32_t kStopped = 0xfffffffe;
  struct Space {
    // While there is no index: the region that is live, if any.
    uint32_t only = kNone;
    std::unique_ptr<RegionIndex> index;
  };
  struct ReaderNode {
    uint32_t reader;  // owner + 1
    uint32_t older;
  };

  static constexpr uint8_t kAnyReader = Region::kOneReader | Region::kManyReaders;

  // Whether an access concerns only what is kept for this region itself.
  bool IsReady(uint32_t id, uint8_t checks) const {
    const uint8_t flags = table_.regions[id].flags;
    return (flags & (Region::kLive | Region::kForwarded | checks)) == Region::kLive;
  }
  // Makes a region ready. Returns the one that stands for it, after that has met those that
  // overlap it, or kNone if it is empty or the budget has ended the work.
  uint32_t Prepare(uint32_t owner, uint32_t region, bool writes, std::vector<uint32_t>& before);
  // The region that stands for this one. Shortens the way there, so that many steps are taken
  // once only.
  uint32_t Resolve(uint32_t region);
  // Looks at the regions that overlap this one, as its owner reads or writes it, and makes it
  // live. Returns the region, or the one that stands for it from now on and is to be used, or
  // kNone if the budget has ended the work.
  uint32_t Meet(uint32_t owner, uint32_t id, bool writes, std::vector<uint32_t>& before);
  // Fills met_ with the live regions that overlap; for a read, without those that are quiet; and
  // implied_ with those that may, but need not be named. Returns one that is the same, or kNone, or
  // kStopped if the budget has ended the work.
  uint32_t FindOverlaps(uint32_t id, bool writes);
  // Finds out, where many regions are near, which of their writers are implied by others.
  bool FindChains(uint32_t id);
  // Whether it is enough to know its writer's place in a chain.
  static bool IsOnlyWritten(const Region& region) {
    return region.writer != 0 && (region.flags & kAnyReader) == 0;
  }
  void Enter(uint32_t id, bool quiet);
  void Retire(uint32_t id);
  bool HasEnded(const Region& region) const;

  // `who` is an owner + 1, or 0 for none.
  void Name(uint32_t who, uint32_t owner, std::vector<uint32_t>& before) {
    if (who <= ended_) return;
    if (who == owner + 1) {
      met_itself_ = true;
    } else {
      before.push_back(who - 1);
    }
  }
  // Names the readers after `since`; returns whether there is any.
  bool NameReaders(const Region& region, uint32_t since, uint32_t owner,
                   std::vector<uint32_t>& before);
  void AddReader(Region& region, uint32_t owner) {
    if ((region.flags & kAnyReader) == 0) {
      region.flags |= Region::kOneReader;
      region.readers = owner + 1;
      ++readers_;
    } else {
      AddAnotherReader(region, owner);
    }
  }
  void AddAnotherReader(Region& region, uint32_t owner);
  void DropReaders(Region& region);
  void FreeNodes(uint32_t node);
  void Sweep();

  RegionTable table_;
  absl::flat_hash_map<Footprint, uint32_t> footprints_;  // to their numbers
  std::vector<Space> spaces_;
  BigVector<ReaderNode> nodes_;
  uint32_t free_node_ = kNone;
  uint32_t ended_ = 0;  // owners below have ended
  bool met_itself_ = false;
  uint32_t live_ = 0;
  size_t readers_ = 0;
  size_t readers_swept_ = 0;  // left by the last sweep
  uint64_t compared_ = 0;
  WorkBudget budget_;
  uint32_t stopped_at_ = kNone;
  uint32_t idle_ = 0;          // how many without a writer the last search came across
  std::vector<uint32_t> met_;  // kept so that an access costs no allocation
  std::vector<uint32_t> implied_;
  WriterChains chains_;
  bool uses_chains_ = false;  // in the last search
};

}  // namespace pto
