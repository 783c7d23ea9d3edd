#include "runtime/graph/region_index.h"

#include <algorithm>
#include <bit>

namespace pto::engine {
namespace {

// Longer than any space, and small enough that sums do not overflow.
constexpr int64_t kEndless = int64_t{1} << 60;

// How box sizes are rounded up to a cell size: not at all, so that equal tiles fill their cells
// exactly; to powers of 2 whose exponent is a multiple of this number; or to one size for all.
constexpr uint32_t kExact = 0;
constexpr uint32_t kAll = 64;

// Coarser with more groups, because a search visits every group.
uint32_t RoundingOf(size_t groups) {
  if (groups < 8) return kExact;
  if (groups < 48) return 1;
  if (groups < 64) return 4;
  return groups < 72 ? 16 : kAll;
}

// A search visits up to this many cells one by one. It visits more only while the number of visited
// cells is not much larger than the number of inserted regions; beyond that, a tree over the cells
// pays.
constexpr uint64_t kFewCells = 32;
constexpr uint64_t kCellsPerRegion = 4;
// Counts saturate here.
constexpr uint64_t kCountLimit = uint64_t{1} << 31;

__extension__ using Wide = unsigned __int128;

int64_t RoundUp(int64_t extent, int64_t most, uint32_t rounding) {
  if (rounding == kExact) return extent;
  if (rounding == kAll) return most;
  auto exponent = static_cast<uint32_t>(std::bit_width(static_cast<uint64_t>(extent - 1)));
  exponent = (exponent + rounding - 1) / rounding * rounding;
  return exponent >= 60 ? most : std::min(most, int64_t{1} << exponent);
}

}  // namespace

uint32_t RegionIndex::FrameOf(const RegionTable& table, uint32_t footprint) {
  if (footprint == last_footprint_) return last_frame_;
  const Footprint& shape = table.footprints[footprint];
  Frame wanted;
  for (uint32_t i = 0; i < shape.ndim; ++i) {
    const int64_t stride = shape.dims[i].stride;
    if (stride == 1) break;
    if (wanted.levels > 0 && wanted.strides[wanted.levels - 1] % stride != 0) continue;
    wanted.strides[wanted.levels++] = stride;
  }
  wanted.strides[wanted.levels++] = 1;
  // A grid has up to 4 cells more than digits on each level, and cell numbers have 63 bits.
  const auto numbered = [&wanted] {
    Wide cells = static_cast<Wide>(kEndless / wanted.strides[0]) + 4;
    for (uint32_t i = 1; i < wanted.levels; ++i) {
      cells *= static_cast<Wide>(wanted.strides[i - 1] / wanted.strides[i]) + 4;
      if (cells >> 63 != 0) return false;
    }
    return true;
  };
  while (!numbered()) {
    wanted.strides[wanted.levels - 2] = 1;
    --wanted.levels;
  }

  const auto common = [&wanted](const Frame& frame) {
    uint32_t count = 0;
    for (uint32_t i = 0, j = 0; i < wanted.levels; ++i) {
      while (j < frame.levels && frame.strides[j] > wanted.strides[i]) ++j;
      count += j < frame.levels && frame.strides[j] == wanted.strides[i] ? 1 : 0;
    }
    return count;
  };
  uint32_t best = 0, best_common = 0;
  for (uint32_t i = 0; i < frames_.size(); ++i) {
    // Plain ranges stay in a frame of their own, where they are exact.
    if ((wanted.levels == 1) != (frames_[i].levels == 1)) continue;
    const uint32_t count = common(frames_[i]);
    if (count > best_common) best = i, best_common = count;
  }
  if (best_common < wanted.levels && frames_.size() < kMaxFrames) {
    for (uint32_t i = 0; i < wanted.levels; ++i) {
      wanted.dividers[i] = Divider(static_cast<uint64_t>(wanted.strides[i]));
      wanted.sizes[i] = i == 0 ? kEndless : wanted.strides[i - 1] / wanted.strides[i];
    }
    best = static_cast<uint32_t>(frames_.size());
    frames_.push_back(wanted);
  }
  last_footprint_ = footprint;
  last_frame_ = best;
  return best;
}

void RegionIndex::FindBox(Frame& frame, const RegionTable& table, const Region& region, Box& box) {
  Frame::Reach& reach = frame.reaches[region.footprint % frame.reaches.size()];
  if (reach.footprint != region.footprint) {
    reach.footprint = region.footprint;
    reach.digits.fill(0);
    const Footprint& shape = table.footprint(region);
    for (uint32_t i = 0; i < shape.ndim; ++i) {
      uint32_t level = 0;
      while (shape.dims[i].stride % frame.strides[level] != 0) ++level;
      reach.digits[level] +=
          (shape.dims[i].size - 1) * (shape.dims[i].stride / frame.strides[level]);
    }
  }
  auto rest = static_cast<uint64_t>(region.begin);
  const uint32_t last = frame.levels - 1;
  for (uint32_t i = 0; i < last; ++i) {
    const uint64_t digit = frame.dividers[i].Quotient(rest);
    rest -= digit * frame.dividers[i].divisor();
    box.low[i] = static_cast<int64_t>(digit);
  }
  box.low[last] = static_cast<int64_t>(rest);
  // A digit that may overflow can have any value, and carries into the digit before it.
  int64_t carry = 0;
  for (uint32_t i = last; i > 0; --i) {
    box.high[i] = box.low[i] + reach.digits[i] + carry;
    carry = 0;
    if (box.high[i] >= frame.sizes[i]) {
      carry = box.high[i] / frame.sizes[i];
      box.low[i] = 0;
      box.high[i] = frame.sizes[i] - 1;
    }
  }
  box.high[0] = box.low[0] + reach.digits[0] + carry;
}

uint8_t RegionIndex::GroupOf(uint32_t frame_index, const Box& box) {
  const Frame& frame = frames_[frame_index];
  const auto extent = [&](uint32_t level, uint32_t rounding) {
    return RoundUp(box.high[level] - box.low[level] + 1, frame.sizes[level], rounding);
  };
  for (size_t i = 0; i < groups_.size(); ++i) {
    const Group& group = groups_[i];
    if (group.frame != frame_index) continue;
    uint32_t level = 0;
    while (level < frame.levels && group.extent[level] == extent(level, group.rounding)) ++level;
    if (level == frame.levels) return static_cast<uint8_t>(i);
  }
  Group group;
  group.frame = frame_index;
  group.rounding = RoundingOf(groups_.size());
  for (uint32_t i = 0; i < frame.levels; ++i) {
    group.extent[i] = extent(i, group.rounding);
    // The first box starts a cell. Adding twice the extent keeps earlier positions positive.
    group.shift[i] = 2 * group.extent[i] - box.low[i] % group.extent[i];
    group.dividers[i] = Divider(static_cast<uint64_t>(group.extent[i]));
    group.cells[i] = (frame.sizes[i] - 1 + group.shift[i]) / group.extent[i] + 1;
    group.inside[i] = true;
  }
  groups_.push_back(std::move(group));
  return static_cast<uint8_t>(groups_.size() - 1);
}

CellTree::Cell RegionIndex::CellOf(Group& group, const Frame& frame, const Box& box) {
  CellTree::Cell cell;
  for (uint32_t i = 0; i < frame.levels; ++i) {
    const auto at = [&](int64_t digit) {
      return group.dividers[i].Quotient(static_cast<uint64_t>(digit + group.shift[i]));
    };
    cell[i] = at(box.low[i]);
    if (group.inside[i]) group.inside[i] = cell[i] == at(box.high[i]);
  }
  return cell;
}

void RegionIndex::Insert(RegionTable& table, uint32_t id, bool quiet) {
  Region& region = table.regions[id];
  if ((region.flags & Region::kLinked) != 0) {
    if (((region.flags & Region::kQuiet) != 0) == quiet) {
      // No search has visited the list since the region left it.
      region.flags |= Region::kLive;
      ++groups_[region.group].live;
      ++size_;
      quiet_ += quiet ? 1 : 0;
      return;
    }
    Unlink(table, id);
  }
  const uint32_t frame_index = FrameOf(table, region.footprint);
  Frame& frame = frames_[frame_index];
  Box& box = last_boxes_[frame_index];
  if (id != last_found_ || frame_index >= last_boxes_count_) {
    last_found_ = kNone;
    FindBox(frame, table, region, box);
  }
  if (groups_.empty() && frame.levels == 1) tiling_ = region.footprint;
  region.group = GroupOf(frame_index, box);
  Group& group = groups_[region.group];
  const CellTree::Cell cell = CellOf(group, frame, box);
  if (groups_.size() > 1 || !group.inside[0] || quiet) tiling_ = kNone;
  if (group.tree != nullptr) group.tree->Add(cell);
  CellTable& heads = quiet ? group.quiet_heads : group.heads;
  if (quiet) region.flags |= Region::kQuiet;
  quiet_ += quiet ? 1 : 0;
  Link(group, heads.At(Number(group, frame.levels, cell)), region, id);
}

void RegionIndex::Remove(RegionTable& table, uint32_t id) {
  // The region stays in its list; the next search drops it.
  Region& region = table.regions[id];
  region.flags &= static_cast<uint8_t>(~Region::kLive);
  --groups_[region.group].live;
  --size_;
  quiet_ -= (region.flags & Region::kQuiet) != 0 ? 1 : 0;
}

void RegionIndex::Wake(RegionTable& table, uint32_t id) {
  Remove(table, id);
  Insert(table, id);
}

bool RegionIndex::DropStale(RegionTable& table, uint32_t& head) {
  Region& first = table.regions[head - 1];
  if ((first.flags & Region::kLive) != 0 || first.next != 0) return false;
  first.flags &= static_cast<uint8_t>(~Region::kLinked);
  head = 0;
  return true;
}

void RegionIndex::Unlink(RegionTable& table, uint32_t id) {
  Region& region = table.regions[id];
  Group& group = groups_[region.group];
  Frame& frame = frames_[group.frame];
  Box box;
  FindBox(frame, table, region, box);
  CellTable& heads = (region.flags & Region::kQuiet) != 0 ? group.quiet_heads : group.heads;
  uint32_t* link = &heads.At(Number(group, frame.levels, CellOf(group, frame, box)));
  for (; *link != id + 1; link = &table.regions[*link - 1].next) ++steps_;
  *link = region.next;
  region.flags &= static_cast<uint8_t>(~(Region::kLinked | Region::kQuiet));
}

void RegionIndex::FindNear(RegionTable& table, uint32_t id, bool all,
                           std::vector<uint32_t>& found) {
  last_found_ = id;
  last_boxes_count_ = static_cast<uint32_t>(frames_.size());
  for (uint32_t f = 0; f < frames_.size(); ++f) {
    FindBox(frames_[f], table, table.regions[id], last_boxes_[f]);
  }
  for (Group& group : groups_) {
    if (group.live > 0) FindInGroup(table, group, last_boxes_[group.frame], id, all, found);
  }
}

inline bool RegionIndex::FindInList(RegionTable& table, CellTable& heads, uint64_t cell,
                                    uint32_t id, std::vector<uint32_t>& found) {
  uint32_t* const head = heads.Find(cell);
  if (head == nullptr || *head == 0) return false;
  uint64_t steps = 0;
  for (uint32_t* link = head; *link != 0; ++steps) {
    const uint32_t other = *link - 1;
    Region& region = table.regions[other];
    if ((region.flags & Region::kLive) == 0) {
      region.flags &= static_cast<uint8_t>(~(Region::kLinked | Region::kQuiet));
      *link = region.next;
      continue;
    }
    if (other != id) found.push_back(other);
    link = &region.next;
  }
  steps_ += steps;
  return *head != 0;
}

inline bool RegionIndex::FindInCell(RegionTable& table, Group& group, uint64_t cell, uint32_t id,
                                    bool all, std::vector<uint32_t>& found) {
  ++steps_;
  const bool any = FindInList(table, group.heads, cell, id, found);
  if (quiet_ == 0) return any;
  // A list of quiet regions that was not searched may not be empty.
  return (!all || FindInList(table, group.quiet_heads, cell, id, found)) || any;
}

void RegionIndex::FindInGroup(RegionTable& table, Group& group, const Box& box, uint32_t id,
                              bool all, std::vector<uint32_t>& found) {
  const uint32_t levels = frames_[group.frame].levels;
  CellTree::Cell first, last;
  uint64_t count = 1;
  for (uint32_t i = 0; i < levels; ++i) {
    // A box that begins in the previous cell may extend into this one.
    const int64_t low = group.inside[i] ? box.low[i] : box.low[i] - group.extent[i] + 1;
    first[i] = group.dividers[i].Quotient(static_cast<uint64_t>(low + group.shift[i]));
    last[i] = group.dividers[i].Quotient(static_cast<uint64_t>(box.high[i] + group.shift[i]));
    // Both factors are at most the limit.
    count = std::min(count * std::min(last[i] - first[i] + 1, kCountLimit), kCountLimit);
  }
  if (count == 1) {
    FindInCell(table, group, Number(group, levels, first), id, all, found);
    return;
  }
  if (count > kFewCells) {
    if (group.tree == nullptr && group.walked + count > group.inserted * kCellsPerRegion) {
      BuildTree(table, group);
    }
    if (group.tree != nullptr) {
      steps_ += group.tree->ForEach(first, last, [&](const CellTree::Cell& cell) {
        if (!FindInCell(table, group, Number(group, levels, cell), id, all, found)) {
          group.tree->Remove(cell);
        }
      });
      return;
    }
    group.walked += count;
  }
  CellTree::Cell at = first;
  const uint32_t inner = levels - 1;
  for (;;) {
    at[inner] = first[inner];
    const uint64_t row = Number(group, levels, at) - first[inner];
    for (uint64_t column = first[inner]; column <= last[inner]; ++column) {
      FindInCell(table, group, row + column, id, all, found);
    }
    uint32_t level = inner;
    for (; level > 0 && at[level - 1] == last[level - 1]; --level) at[level - 1] = first[level - 1];
    if (level == 0) return;
    ++at[level - 1];
  }
}

void RegionIndex::BuildTree(RegionTable& table, Group& group) {
  Frame& frame = frames_[group.frame];
  CellTree::Cell cells{};
  for (uint32_t i = 0; i < frame.levels; ++i) {
    // The first digit is unbounded, but positions are not.
    const int64_t digits = i == 0 ? kEndless / frame.strides[0] : frame.sizes[i];
    cells[i] = static_cast<uint64_t>((digits - 1 + group.shift[i]) / group.extent[i] + 1);
  }
  group.tree = std::make_unique<CellTree>(cells, frame.levels);
  for (CellTable* heads : {&group.heads, &group.quiet_heads}) {
    heads->ForEach([&](uint32_t link) {
      // All regions of the list begin in the same cell.
      Box box;
      FindBox(frame, table, table.regions[link - 1], box);
      group.tree->Add(CellOf(group, frame, box));
      ++steps_;
    });
  }
}

size_t RegionIndex::bytes() const {
  size_t bytes = sizeof *this + frames_.capacity() * sizeof(Frame);
  bytes += groups_.capacity() * sizeof(Group);
  for (const Group& group : groups_) {
    bytes += group.heads.bytes() + group.quiet_heads.bytes();
    if (group.tree != nullptr) bytes += group.tree->bytes();
  }
  return bytes;
}

}  // namespace pto::engine
