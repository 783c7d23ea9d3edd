#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/graph/big_vector.h"
#include "runtime/graph/cell_table.h"
#include "runtime/graph/divider.h"
#include "runtime/graph/footprint.h"

namespace pto {

// A footprint at a place of a memory space, and who used it. AccessMap says what the last
// fields mean; the index keeps `next` and `group` of the regions that are in it.
struct Region {
  enum Flag : uint8_t {
    kLive = 1 << 0,         // in the index of its space
    kListed = 1 << 1,       // in the list of its group, if it has one, or was until it left
    kReadChecks = 1 << 2,   // a read has to look at other regions
    kWriteChecks = 1 << 3,  // a write has to look at other regions
    kForwarded = 1 << 4,    // is the same as the region `next`, which stands for it
    kOneReader = 1 << 5,    // `readers` is that reader
    kManyReaders = 1 << 6,  // `readers` is the newest node of a list
  };
  int64_t begin = 0;  // in bytes
  uint32_t footprint = 0;
  uint32_t space = 0;
  uint32_t writer = 0;
  uint32_t readers = 0;
  uint32_t next = 0;  // in its cell, counted from 1; 0 ends
  uint8_t group = 0;
  uint8_t flags = 0;
};
static_assert(sizeof(Region) == 32);

// All regions and the footprints that they refer to.
struct RegionTable {
  BigVector<Region> regions;
  std::vector<Footprint> footprints;

  const Footprint& footprint(const Region& region) const { return footprints[region.footprint]; }
};

// Finds the regions of one space that may overlap a given one, in a time that hardly depends on
// how many there are, as long as regions of one kind are spread over the space.
//
// A byte's place is a number with mixed radix, whose digits come from strides that regions
// have: row and column for the tiles of a matrix. Then a region is a box, and column tiles,
// whose ranges all overlap, are boxes side by side. Such a set of strides is a frame; a space
// has few. The boxes of one size are a group with a grid of its own, whose cells have that size.
//
// Not thread-safe. The table given to each call must be the same one.
class RegionIndex {
 public:
  // The region must not be in the index.
  void Insert(RegionTable& table, uint32_t id);
  // Inserts the region if it is easy to see that no other one in the index overlaps it: all are
  // as long as it and side by side, as the rows of a matrix or the blocks of a buffer are.
  // Otherwise returns false. The region must not be in the index.
  bool InsertAlone(RegionTable& table, uint32_t id) {
    Region& region = table.regions[id];
    if (region.footprint != tiling_) return false;
    Group& group = groups_.front();
    const auto begin = static_cast<uint64_t>(region.begin + group.shift[0]);
    const uint64_t cell = group.dividers[0].Quotient(begin);
    if (cell * group.dividers[0].divisor() != begin) return false;
    uint32_t& head = group.heads.At(cell);
    if (head != 0) return false;
    Link(group, head, region, id);
    return true;
  }
  // The region must be in the index.
  void Remove(RegionTable& table, uint32_t id);

  // Appends all regions in the index, save `id` itself, whose boxes meet that of region `id`,
  // and perhaps some more. The region itself need not be in the index.
  void FindNear(RegionTable& table, uint32_t id, std::vector<uint32_t>& found);

  // Regions in the index.
  uint32_t size() const { return size_; }
  size_t bytes() const;

 private:
  static constexpr uint32_t kMaxLevels = Footprint::kMaxDims;
  static constexpr size_t kMaxFrames = 4;
  static constexpr uint32_t kNone = 0xffffffff;

  struct Box {
    std::array<int64_t, kMaxLevels> low, high;
  };

  // Digits of a byte's place: strides that fall to 1, each a multiple of the next.
  struct Frame {
    uint32_t levels = 0;
    std::array<int64_t, kMaxLevels> strides{};
    std::array<int64_t, kMaxLevels> sizes{};  // of each digit but the first, which has no end
    std::array<Divider, kMaxLevels> dividers;

    // How far each digit of a footprint reaches beyond that of its first byte, remembered for
    // the footprints used last.
    struct Reach {
      uint32_t footprint = kNone;
      std::array<int64_t, kMaxLevels> digits{};
    };
    std::array<Reach, 4> reaches;
  };

  // Boxes of one size, or of nearly one size when there are many sizes.
  struct Group {
    uint32_t frame = 0;
    uint32_t rounding = 0;                     // how sizes of boxes become that of a cell
    std::array<int64_t, kMaxLevels> extent{};  // of a cell; no box is larger
    std::array<int64_t, kMaxLevels> shift{};   // added to a digit before it is divided
    std::array<int64_t, kMaxLevels> cells{};   // in each level but the first
    std::array<Divider, kMaxLevels> dividers;
    std::array<bool, kMaxLevels> inside{};  // whether no box so far crosses the end of a cell
    uint32_t live = 0;
    CellTable heads;
    // All that are live, and perhaps others. Only once a search has needed it.
    bool has_list = false;
    BigVector<uint32_t> listed;
  };

  uint32_t FrameOf(const RegionTable& table, uint32_t footprint);
  static void FindBox(Frame& frame, const RegionTable& table, const Region& region, Box& box);
  uint8_t GroupOf(uint32_t frame, const Box& box);
  // Where a box of the group begins. Takes note of whether it ends there too.
  static uint64_t CellOf(Group& group, const Frame& frame, const Box& box);
  // Puts the region into a cell of its group.
  void Link(Group& group, uint32_t& head, Region& region, uint32_t id) {
    region.next = head;
    head = id + 1;
    region.flags |= Region::kLive;
    if (group.has_list) List(group, region, id);
    ++group.live;
    ++size_;
  }
  static void List(Group& group, Region& region, uint32_t id) {
    if ((region.flags & Region::kListed) != 0) return;
    region.flags |= Region::kListed;
    group.listed.push_back(id);
  }
  static void FindInGroup(RegionTable& table, Group& group, const Frame& frame, const Box& box,
                          uint32_t id, std::vector<uint32_t>& found);
  static void FindInCell(const RegionTable& table, const Group& group, uint64_t cell, uint32_t id,
                         std::vector<uint32_t>& found);
  static void FindListed(RegionTable& table, Group& group, uint32_t id,
                         std::vector<uint32_t>& found);

  std::vector<Frame> frames_;
  std::vector<Group> groups_;
  uint32_t size_ = 0;
  // The footprint of all regions, as long as all are plain ranges that fill a cell each.
  uint32_t tiling_ = kNone;
  // The frame of the footprint asked for last.
  uint32_t last_footprint_ = kNone;
  uint32_t last_frame_ = 0;
  // The boxes of the region that was looked for last, which mostly is inserted next.
  uint32_t last_found_ = kNone;
  uint32_t last_boxes_count_ = 0;
  std::array<Box, kMaxFrames> last_boxes_;
};

}  // namespace pto
