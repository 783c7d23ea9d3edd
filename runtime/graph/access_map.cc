#include "runtime/graph/access_map.h"

namespace pto::engine {
namespace {

constexpr uint8_t kAllChecks = Region::kReadChecks | Region::kWriteChecks;

// A read whose search finds more than kCrowd regions without a writer makes its region quiet.
constexpr uint32_t kCrowd = 16;

// With more candidates than this, it pays to find out which of their writers are implied.
constexpr size_t kManyNear = 16;

// Skipping this many regions costs about as much as comparing one.
constexpr uint64_t kPassedPerStep = 16;

void Clear(Region& region, uint8_t flags) { region.flags &= static_cast<uint8_t>(~flags); }

}  // namespace

uint32_t AccessMap::AddFootprint(const Layout& layout) {
  const auto next = static_cast<uint32_t>(table_.footprints.size());
  const auto [known, is_new] = footprints_.try_emplace(MakeFootprint(layout), next);
  if (is_new) table_.footprints.push_back(known->first);
  return known->second;
}

uint32_t AccessMap::Resolve(uint32_t region) {
  uint64_t hops = 0;
  while ((table_.regions[region].flags & Region::kForwarded) != 0) {
    ++hops;
    Region& own = table_.regions[region];
    const Region& next = table_.regions[own.next];
    if ((next.flags & Region::kForwarded) != 0) own.next = next.next;
    region = own.next;
  }
  budget_.Spend(hops);
  return region;
}

uint32_t AccessMap::Prepare(uint32_t owner, uint32_t region, bool writes,
                            std::vector<uint32_t>& before) {
  const bool forwarded = (table_.regions[region].flags & Region::kForwarded) != 0;
  const uint32_t id = forwarded ? Resolve(region) : region;
  const Region& own = table_.regions[id];
  if ((own.flags & Region::kLive) == 0) {
    RegionIndex* const index = spaces_[own.space].index.get();
    if (index != nullptr && index->InsertAlone(table_, id)) {
      ++live_;
      return id;
    }
  }
  const uint8_t checks = writes ? Region::kWriteChecks : Region::kReadChecks;
  if ((own.flags & (Region::kLive | checks)) == Region::kLive) return id;
  if (table_.footprint(own).empty()) return kNone;
  const uint32_t met = Meet(owner, id, writes, before);
  if (met == kNone && stopped_at_ == kNone) stopped_at_ = region;
  return met;
}

// Why checking only when a flag is set is enough: if two live regions overlap, a write to one sets
// both flags of the other and clears its own. Everything that the other region has recorded so far
// precedes this write, and every later access waits for it. So nothing needs a check until the
// other region is used; that access checks because of its flags, and sets the flags of the first
// region in turn. A read sets only the write flag of the other region and keeps its own write flag;
// it clears its own read flag if no overlapping region has a write to wait for.
//
// A quiet region has no writer, and its write flag is always set. So a read has nothing to learn
// from a quiet region and no flag to set there, and skips it. A write checks all regions, and its
// own region is no longer quiet afterwards.
uint32_t AccessMap::Meet(uint32_t owner, uint32_t id, bool writes, std::vector<uint32_t>& before) {
  const size_t named_before = before.size();
  const uint32_t same = FindOverlaps(id, writes);
  if (same == kStopped) return kNone;
  Region& own = table_.regions[id];
  RegionIndex* const index = spaces_[own.space].index.get();
  if (same != kNone) {
    // A cell's list uses the same field, `next`.
    if ((own.flags & Region::kLinked) != 0) index->Drop(table_, id);
    own.flags |= Region::kForwarded;
    own.next = same;
    const uint8_t checks = writes ? Region::kWriteChecks : Region::kReadChecks;
    return (table_.regions[same].flags & checks) != 0 ? Meet(owner, same, writes, before) : same;
  }
  const Footprint& shape = table_.footprint(own);
  // Accesses up to the region's own writer precede that writer, so they need not be named.
  const uint32_t since = own.writer;
  bool any_left = !implied_.empty(), any_writer = false;
  uint64_t steps = implied_.size() / kPassedPerStep;
  for (const uint32_t other_id : implied_) {
    Region& other = table_.regions[other_id];
    any_writer |= other.writer > since;
    met_itself_ |= other.writer == owner + 1;
    if (writes && Covers(shape, own.begin, table_.footprint(other), other.begin, &steps)) {
      Retire(other_id);
    } else {
      other.flags |= writes ? kAllChecks : static_cast<uint8_t>(Region::kWriteChecks);
    }
  }
  if (uses_chains_ && writes) chains_.Write(id, owner + 1);
  for (const uint32_t other_id : met_) {
    Region& other = table_.regions[other_id];
    const bool named = writes && NameReaders(other, since, owner, before);
    if (other.writer > since) {
      any_writer = true;
      if (!named) Name(other.writer, owner, before);
    }
    if (writes && Covers(shape, own.begin, table_.footprint(other), other.begin, &steps)) {
      Retire(other_id);
      continue;
    }
    other.flags |= writes ? kAllChecks : static_cast<uint8_t>(Region::kWriteChecks);
    any_left = true;
  }
  const bool live = (own.flags & Region::kLive) != 0;
  const bool quiet =
      !writes && index != nullptr && (live ? (own.flags & Region::kQuiet) != 0 : idle_ > kCrowd);
  any_left |= quiet || (index != nullptr && index->quiet() > 0);
  Clear(own, kAllChecks);
  if (!writes && any_left) {
    own.flags |= any_writer ? kAllChecks : static_cast<uint8_t>(Region::kWriteChecks);
  }
  if (!live) {
    Enter(id, quiet);
  } else if (writes && (own.flags & Region::kQuiet) != 0) {
    index->Wake(table_, id);
  }
  return budget_.Spend(steps + before.size() - named_before) ? id : kNone;
}

uint32_t AccessMap::FindOverlaps(uint32_t id, bool writes) {
  met_.clear();
  idle_ = 0;
  const Region& own = table_.regions[id];
  const Space& space = spaces_[own.space];
  uint64_t steps = 0;
  if (space.index != nullptr) {
    space.index->FindNear(table_, id, writes, met_);
    steps = space.index->TakeSteps();
  } else if (space.only != kNone && space.only != id) {
    met_.push_back(space.only);
  }
  implied_.clear();
  if (!budget_.Spend(steps)) return kStopped;
  uses_chains_ = met_.size() > kManyNear;
  if (uses_chains_ && !FindChains(id)) return kStopped;
  const bool live = (own.flags & Region::kLive) != 0;
  const Footprint& shape = table_.footprint(own);
  size_t kept = 0;
  for (const uint32_t other_id : met_) {
    const Region& other = table_.regions[other_id];
    steps = 1;
    ++compared_;
    if (HasEnded(other)) {
      Retire(other_id);
    } else if (!live && other.begin == own.begin && other.footprint == own.footprint) {
      return other_id;
    } else if (uses_chains_ && IsOnlyWritten(other) && chains_.IsImplied(other_id, other.writer)) {
      implied_.push_back(other_id);
      continue;
    } else {
      idle_ += other.writer == 0 ? 1 : 0;
      if (Overlaps(shape, own.begin, table_.footprint(other), other.begin, &steps)) {
        met_[kept++] = other_id;
      }
    }
    if (!budget_.Spend(steps)) return kStopped;
  }
  met_.resize(kept);
  return kNone;
}

bool AccessMap::FindChains(uint32_t id) {
  const Region& own = table_.regions[id];
  chains_.Begin();
  for (const uint32_t other_id : met_) {
    const Region& other = table_.regions[other_id];
    if (IsOnlyWritten(other)) chains_.Meet(other_id, other.writer);
  }
  uint64_t steps = met_.size() / kPassedPerStep;
  for (const WriterChains::Newest& newest : chains_.newest()) {
    const Region& other = table_.regions[newest.region];
    ++steps;
    if (Overlaps(table_.footprint(own), own.begin, table_.footprint(other), other.begin, &steps)) {
      chains_.Wait(newest);
    }
  }
  return budget_.Spend(steps);
}

void AccessMap::Enter(uint32_t id, bool quiet) {
  Space& space = spaces_[table_.regions[id].space];
  ++live_;
  if (space.index == nullptr) {
    if (space.only == kNone) {
      space.only = id;
      table_.regions[id].flags |= Region::kLive;
      return;
    }
    space.index = std::make_unique<RegionIndex>();
    space.index->Insert(table_, space.only);
    space.only = kNone;
  }
  space.index->Insert(table_, id, quiet);
}

void AccessMap::Retire(uint32_t id) {
  Region& region = table_.regions[id];
  Space& space = spaces_[region.space];
  if (space.index != nullptr) {
    space.index->Remove(table_, id);
  } else {
    space.only = kNone;
  }
  DropReaders(region);
  region.writer = 0;
  Clear(region, Region::kLive | kAllChecks);
  --live_;
}

bool AccessMap::HasEnded(const Region& region) const {
  if (region.writer > ended_) return false;
  if ((region.flags & Region::kOneReader) != 0) return region.readers <= ended_;
  return (region.flags & Region::kManyReaders) == 0 || nodes_[region.readers].reader <= ended_;
}

bool AccessMap::NameReaders(const Region& region, uint32_t since, uint32_t owner,
                            std::vector<uint32_t>& before) {
  if ((region.flags & Region::kOneReader) != 0) {
    if (region.readers <= since) return false;
    Name(region.readers, owner, before);
    return true;
  }
  if ((region.flags & Region::kManyReaders) == 0) return false;
  bool any = false;
  for (uint32_t node = region.readers; node != kNone; node = nodes_[node].older) {
    const uint32_t reader = nodes_[node].reader;
    if (reader <= since || reader <= ended_) break;
    Name(reader, owner, before);
    any = true;
  }
  return any;
}

void AccessMap::AddAnotherReader(Region& region, uint32_t owner) {
  const auto node = [this](uint32_t reader, uint32_t older) {
    const uint32_t at = free_node_;
    if (at == kNone) {
      nodes_.push_back({reader, older});
      return static_cast<uint32_t>(nodes_.size() - 1);
    }
    free_node_ = nodes_[at].older;
    nodes_[at] = {reader, older};
    return at;
  };
  if ((region.flags & Region::kOneReader) != 0) {
    if (region.readers == owner + 1) return;
    Clear(region, Region::kOneReader);
    region.flags |= Region::kManyReaders;
    region.readers = node(region.readers, kNone);
  }
  region.readers = node(owner + 1, region.readers);
  ++readers_;
}

void AccessMap::DropReaders(Region& region) {
  if ((region.flags & Region::kOneReader) != 0) --readers_;
  if ((region.flags & Region::kManyReaders) != 0) FreeNodes(region.readers);
  Clear(region, kAnyReader);
}

void AccessMap::FreeNodes(uint32_t node) {
  while (node != kNone) {
    const uint32_t older = nodes_[node].older;
    nodes_[node].older = free_node_;
    free_node_ = node;
    node = older;
    --readers_;
  }
}

void AccessMap::ForgetBefore(uint32_t owner) {
  ended_ = owner;
  // Sweeps rarely, so that the cost for each access stays small.
  if (readers_ > 2 * readers_swept_ + table_.regions.size() + 1024) Sweep();
}

void AccessMap::Sweep() {
  budget_.Spend(table_.regions.size());
  for (uint32_t id = 0; id < table_.regions.size(); ++id) {
    Region& region = table_.regions[id];
    if ((region.flags & Region::kLive) == 0) continue;
    if (HasEnded(region)) {
      Retire(id);
    } else if ((region.flags & Region::kManyReaders) != 0) {
      // The list is sorted, newest reader first.
      uint32_t* link = &region.readers;
      while (*link != kNone && nodes_[*link].reader > ended_) link = &nodes_[*link].older;
      const uint32_t rest = *link;
      *link = kNone;
      FreeNodes(rest);
      if (region.readers == kNone) Clear(region, Region::kManyReaders);
    }
  }
  readers_swept_ = readers_;
}

size_t AccessMap::bytes() const {
  size_t bytes = table_.regions.bytes() + table_.footprints.capacity() * sizeof(Footprint) +
                 spaces_.capacity() * sizeof(Space) + nodes_.bytes() +
                 (met_.capacity() + implied_.capacity()) * sizeof(uint32_t) + chains_.bytes();
  bytes += footprints_.capacity() * (sizeof(Footprint) + sizeof(uint32_t));
  for (const Space& space : spaces_) {
    if (space.index != nullptr) bytes += space.index->bytes();
  }
  return bytes;
}

}  // namespace pto::engine
