#include "runtime/graph/region_index.h"

#include <algorithm>
#include <bit>

namespace pto {
namespace {

// Longer than any space, and short enough to be added up.
constexpr int64_t kEndless = int64_t{1} << 60;

// How the sizes of boxes are rounded to that of a cell: not at all, so that tiles of one size
// just fill theirs, or to powers of 2 whose exponent is a multiple of the number, or to all.
constexpr uint32_t kExact = 0;
constexpr uint32_t kAll = 64;

// More coarse the more groups there are: a search looks into each.
uint32_t RoundingOf(size_t groups) {
  if (groups < 8) return kExact;
  if (groups < 64) return 1;
  if (groups < 128) return 4;
  return groups < 192 ? 16 : kAll;
}

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
    // Plain ranges stay by themselves, where they are exact.
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
  // A digit that can run over may be anything, and is carried to the one before.
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
    // The first box begins a cell. Twice the extent keeps places before that above 0.
    group.shift[i] = 2 * group.extent[i] - box.low[i] % group.extent[i];
    group.dividers[i] = Divider(static_cast<uint64_t>(group.extent[i]));
    group.cells[i] = (frame.sizes[i] - 1 + group.shift[i]) / group.extent[i] + 1;
    group.inside[i] = true;
  }
  groups_.push_back(std::move(group));
  return static_cast<uint8_t>(groups_.size() - 1);
}

uint64_t RegionIndex::CellOf(Group& group, const Frame& frame, const Box& box) {
  uint64_t cell = 0;
  for (uint32_t i = 0; i < frame.levels; ++i) {
    const auto at = [&](int64_t digit) {
      return group.dividers[i].Quotient(static_cast<uint64_t>(digit + group.shift[i]));
    };
    const uint64_t low = at(box.low[i]);
    if (group.inside[i]) group.inside[i] = low == at(box.high[i]);
    cell = cell * static_cast<uint64_t>(group.cells[i]) + low;
  }
  return cell;
}

void RegionIndex::Insert(RegionTable& table, uint32_t id) {
  Region& region = table.regions[id];
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
  const uint64_t cell = CellOf(group, frame, box);
  if (groups_.size() > 1 || !group.inside[0]) tiling_ = kNone;
  Link(group, group.heads.At(cell), region, id);
}

void RegionIndex::Remove(RegionTable& table, uint32_t id) {
  Region& region = table.regions[id];
  Group& group = groups_[region.group];
  Frame& frame = frames_[group.frame];
  Box box;
  FindBox(frame, table, region, box);
  uint32_t* link = &group.heads.At(CellOf(group, frame, box));
  while (*link != id + 1) link = &table.regions[*link - 1].next;
  *link = region.next;
  region.flags &= static_cast<uint8_t>(~Region::kLive);
  --group.live;
  --size_;
}

void RegionIndex::FindNear(RegionTable& table, uint32_t id, std::vector<uint32_t>& found) {
  last_found_ = id;
  last_boxes_count_ = static_cast<uint32_t>(frames_.size());
  for (uint32_t f = 0; f < frames_.size(); ++f) {
    Box& box = last_boxes_[f];
    FindBox(frames_[f], table, table.regions[id], box);
    for (Group& group : groups_) {
      if (group.frame == f && group.live > 0) {
        FindInGroup(table, group, frames_[f], box, id, found);
      }
    }
  }
}

void RegionIndex::FindInCell(const RegionTable& table, const Group& group, uint64_t cell,
                             uint32_t id, std::vector<uint32_t>& found) {
  for (uint32_t link = group.heads.Get(cell); link != 0; link = table.regions[link - 1].next) {
    if (link - 1 != id) found.push_back(link - 1);
  }
}

void RegionIndex::FindInGroup(RegionTable& table, Group& group, const Frame& frame, const Box& box,
                              uint32_t id, std::vector<uint32_t>& found) {
  std::array<uint64_t, kMaxLevels> first, last;
  uint64_t count = 1, first_cell = 0;
  for (uint32_t i = 0; i < frame.levels; ++i) {
    // A box that begins in the cell before may reach into this one.
    const int64_t low = group.inside[i] ? box.low[i] : box.low[i] - group.extent[i] + 1;
    first[i] = group.dividers[i].Quotient(static_cast<uint64_t>(low + group.shift[i]));
    last[i] = group.dividers[i].Quotient(static_cast<uint64_t>(box.high[i] + group.shift[i]));
    first_cell = first_cell * static_cast<uint64_t>(group.cells[i]) + first[i];
    const uint64_t cells = last[i] - first[i] + 1;
    // Fewer regions than cells: better go through the regions.
    if (cells > group.live || (count *= cells) > group.live) {
      return FindListed(table, group, id, found);
    }
  }
  if (count == 1) return FindInCell(table, group, first_cell, id, found);
  std::array<uint64_t, kMaxLevels> at = first;
  const uint32_t inner = frame.levels - 1;
  for (;;) {
    uint64_t row = 0;
    for (uint32_t i = 0; i < inner; ++i) {
      row = (row + at[i]) * static_cast<uint64_t>(group.cells[i + 1]);
    }
    for (uint64_t column = first[inner]; column <= last[inner]; ++column) {
      FindInCell(table, group, row + column, id, found);
    }
    uint32_t level = inner;
    for (; level > 0 && at[level - 1] == last[level - 1]; --level) at[level - 1] = first[level - 1];
    if (level == 0) return;
    ++at[level - 1];
  }
}

void RegionIndex::FindListed(RegionTable& table, Group& group, uint32_t id,
                             std::vector<uint32_t>& found) {
  if (!group.has_list) {
    group.has_list = true;
    group.heads.ForEach([&](uint32_t link) {
      for (; link != 0; link = table.regions[link - 1].next) {
        List(group, table.regions[link - 1], link - 1);
      }
    });
  }
  const int64_t begin = table.regions[id].begin;
  const int64_t end = begin + table.footprint(table.regions[id]).extent;
  size_t kept = 0;
  for (const uint32_t other : group.listed) {
    Region& region = table.regions[other];
    if ((region.flags & Region::kLive) == 0) {
      region.flags &= static_cast<uint8_t>(~Region::kListed);
      continue;
    }
    group.listed[kept++] = other;
    if (region.begin < end && begin < region.begin + table.footprint(region).extent &&
        other != id) {
      found.push_back(other);
    }
  }
  group.listed.resize(kept);
}

size_t RegionIndex::bytes() const {
  size_t bytes = sizeof *this + frames_.capacity() * sizeof(Frame);
  bytes += groups_.capacity() * sizeof(Group);
  for (const Group& group : groups_) {
    bytes += group.listed.bytes() + group.heads.bytes();
  }
  return bytes;
}

}  // namespace pto
