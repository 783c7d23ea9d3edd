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

namespace pto::engine {

// Finds what a memory access has to wait for. Accesses arrive in program order. Each has an owner,
// for example a task, and touches a region: a layout at an offset of a memory space. A read waits
// for earlier writes of the same bytes (RAW), a write for earlier reads and writes (WAR, WAW). The
// owners returned for an access are not always complete: some orderings follow transitively from
// other pairs.
//
// The map keeps the last writer of each region, and the readers since that write. A write that
// covers another region drops that region's state, because every later access waits for the write.
// So the map holds at most one writer for each region, and the readers since the last covering
// write.
//
// The cost of a region that overlaps no other is independent of the number of regions. Overlapping
// regions are searched once, and again only after one of them was used. Where many regions are only
// read, they are not compared with each other. Where many are written, most of their writers are
// skipped, because they precede a writer that is waited for anyway (WriterChains).
//
// All work is charged to a budget. Once the budget is exhausted, accesses do nothing and the result
// is incomplete; the caller must check budget() after its accesses.
//
// The caller numbers the spaces, preferably with small numbers; the same memory must always have
// the same number. Owner numbers must not decrease and must be below kMaxOwner.
// Not thread-safe.
class AccessMap {
 public:
  static constexpr uint32_t kMaxOwner = 0xfffffffe;

  AccessMap() : AccessMap(WorkBudget()) {}
  explicit AccessMap(WorkBudget budget) : budget_(std::move(budget)) {}

  // Returns the number of the layout's footprint; layouts that touch the same bytes share a number.
  // The layout must come from MakeLayout.
  uint32_t AddFootprint(const Layout& layout);
  // Returns the index of the new region, starting at 0. `begin` is in bytes and not negative.
  // Adding the same region again is allowed.
  uint32_t AddRegion(uint32_t space, uint32_t footprint, int64_t begin) {
    Region region;
    region.begin = begin;
    region.footprint = footprint;
    region.space = space;
    table_.regions.push_back(region);
    if (space >= spaces_.size()) spaces_.resize(size_t{space} + 1);
    return static_cast<uint32_t>(table_.regions.size() - 1);
  }

  // Prefetches a region's state into the cache before an access.
  void Prefetch(uint32_t region) const { __builtin_prefetch(&table_.regions[region], 1); }

  // The owner reads or writes the region; a write may also read it. Appends the owners to wait for:
  // never `owner` itself, possibly the same owner more than once. All accesses of one owner count
  // as one: it does not wait between them.
  void Read(uint32_t owner, uint32_t region, std::vector<uint32_t>& before) {
    if (!IsReady(region, Region::kReadChecks)) {
      region = Prepare(owner, region, false, before);
      if (region == kNone) return;
    }
    Region& own = table_.regions[region];
    Name(own.writer, owner, before);
    // Later accesses that conflict with this read already wait for the owner's write.
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
      // The readers already wait for the writer.
      if (!NameReaders(own, 0, owner, before)) Name(own.writer, owner, before);
      DropReaders(own);
    }
    own.writer = owner + 1;
  }

  // Whether, since the last call of this function, an owner met an access of its own: it used the
  // same bytes twice and wrote them at least once.
  bool TakeMetItself() { return met_itself_ && std::exchange(met_itself_, false); }

  // All owners below `owner` have ended. They are not named any more; their state is freed later.
  void ForgetBefore(uint32_t owner);

  // Regions with state.
  uint32_t live_regions() const { return live_; }
  // Readers kept in all regions.
  size_t live_readers() const { return readers_; }
  // Pairs of regions compared so far.
  uint64_t compared() const { return compared_; }
  // The work beyond the accesses themselves: region comparisons and their steps, cells and regions
  // visited by searches, and hops from a region to its representative.
  const WorkBudget& budget() const { return budget_; }
  WorkBudget& budget() { return budget_; }
  // The region whose access exhausted the budget; meaningless if something other than an access
  // did.
  uint32_t stopped_at() const { return stopped_at_; }
  // Memory held.
  size_t bytes() const;

 private:
  static constexpr uint32_t kNone = 0xffffffff;
  static constexpr uint32_t kStopped = 0xfffffffe;
  struct Space {
    // The live region, if any, as long as there is no index.
    uint32_t only = kNone;
    std::unique_ptr<RegionIndex> index;
  };
  struct ReaderNode {
    uint32_t reader;  // owner + 1
    uint32_t older;
  };

  static constexpr uint8_t kAnyReader = Region::kOneReader | Region::kManyReaders;

  // Whether an access needs only the state of this region.
  bool IsReady(uint32_t id, uint8_t checks) const {
    const uint8_t flags = table_.regions[id].flags;
    return (flags & (Region::kLive | Region::kForwarded | checks)) == Region::kLive;
  }
  // Prepares a region for an access: checks it against the regions that overlap it. Returns its
  // representative, or kNone if it is empty or the budget is exhausted.
  uint32_t Prepare(uint32_t owner, uint32_t region, bool writes, std::vector<uint32_t>& before);
  // Returns the region's representative. Shortens the path, so that long paths are walked only
  // once.
  uint32_t Resolve(uint32_t region);
  // Compares the region with those that overlap it, for a read or write by `owner`, and makes it
  // live. Returns the region to use: this one or its new representative. Returns kNone if the
  // budget is exhausted.
  uint32_t Meet(uint32_t owner, uint32_t id, bool writes, std::vector<uint32_t>& before);
  // Fills met_ with the live regions that overlap this one; a read leaves out the quiet ones. Fills
  // implied_ with regions that may overlap but need not be named. Returns an identical region,
  // kNone, or kStopped if the budget is exhausted.
  uint32_t FindOverlaps(uint32_t id, bool writes);
  // If many regions are near, finds which of their writers are implied by others.
  bool FindChains(uint32_t id);
  // Whether the position of its writer in a chain is all that matters.
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
  // Names the readers after `since`; returns whether there were any.
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
  absl::flat_hash_map<Footprint, uint32_t> footprints_;  // value: index in table_.footprints
  std::vector<Space> spaces_;
  BigVector<ReaderNode> nodes_;
  uint32_t free_node_ = kNone;
  uint32_t ended_ = 0;  // owners below this have ended
  bool met_itself_ = false;
  uint32_t live_ = 0;
  size_t readers_ = 0;
  size_t readers_swept_ = 0;  // readers_ after the last sweep
  uint64_t compared_ = 0;
  WorkBudget budget_;
  uint32_t stopped_at_ = kNone;
  uint32_t idle_ = 0;          // regions without a writer in the last search
  std::vector<uint32_t> met_;  // a member, to avoid an allocation for each access
  std::vector<uint32_t> implied_;
  WriterChains chains_;
  bool uses_chains_ = false;  // whether the last search used chains_
};

}  // namespace pto::engine
