#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "runtime/graph/big_vector.h"
#include "runtime/graph/cell_table.h"
#include "runtime/graph/cell_tree.h"
#include "runtime/graph/divider.h"
#include "runtime/graph/footprint.h"

namespace pto {

// A footprint at a place of a memory space, and who used it. AccessMap says what the last
// fields mean; the index keeps `next` and `group` of the regions that are in it.
struct Region {
  enum Flag : uint8_t {
    kLive = 1 << 0,         // in the index of its space
    kLinked = 1 << 1,       // in the list of its cell; if not live, until somebody walks along it
    kReadChecks = 1 << 2,   // a read has to look at other regions
    kWriteChecks = 1 << 3,  // a write has to look at other regions
    kForwarded = 1 << 4,    // is the same as the region `next`, which stands for it
    kOneReader = 1 << 5,    // `readers` is that reader
    kManyReaders = 1 << 6,  // `readers` is the newest node of a list
    kQuiet = 1 << 7,        // in the other list of its cell, for regions that are only read
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
// how many there are.
//
// A byte's place is a number with mixed radix, whose digits come from strides that regions
// have: row and column for the tiles of a matrix. Then a region is a box, and column tiles,
// whose ranges all overlap, are boxes side by side. Such a set of strides is a frame; a space
// has few. The boxes of one size are a group with a grid of its own, whose cells have that size.
// A search among boxes of about its own size looks into a few cells. One among much smaller
// boxes uses a tree over the cells that are in use.
//
// Regions that are quiet are only found by a search that asks for them.
//
// Not thread-safe. The table given to each call must be the same one.
class RegionIndex {
 public:
  // The region must not be in the index, nor have left another one without being dropped there.
  void Insert(RegionTable& table, uint32_t id, bool quiet = false);
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
    if (head != 0 && !DropStale(table, head)) return false;
    if (group.tree != nullptr) group.tree->Add({cell});
    Link(group, head, region, id);
    return true;
  }
  // The region must be in the index.
  void Remove(RegionTable& table, uint32_t id);
  // A region in the index is not quiet any more.
  void Wake(RegionTable& table, uint32_t id);
  // A region that has left the index is not in the list of a cell either any more.
  void Drop(RegionTable& table, uint32_t id) { Unlink(table, id); }

  // Appends all regions in the index, save `id` itself, whose boxes meet that of region `id`,
  // and perhaps some more, quiet ones only if `all`. The region itself need not be in the index.
  void FindNear(RegionTable& table, uint32_t id, bool all, std::vector<uint32_t>& found);

  // Regions in the index.
  uint32_t size() const { return size_; }
  // Those of them that are quiet.
  uint32_t quiet() const { return quiet_; }
  // How many cells, regions and nodes the calls since the last one of this have looked at.
  uint64_t TakeSteps() { return std::exchange(steps_, 0); }
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
    uint64_t inserted = 0;  // so far
    uint64_t walked = 0;    // cells that searches went through one by one
    CellTable heads;
    CellTable quiet_heads;
    // The cells that have a region. Only once a search has needed it.
    std::unique_ptr<CellTree> tree;
  };

  uint32_t FrameOf(const RegionTable& table, uint32_t footprint);
  static void FindBox(Frame& frame, const RegionTable& table, const Region& region, Box& box);
  uint8_t GroupOf(uint32_t frame, const Box& box);
  // Where a box of the group begins. Takes note of whether it ends there too.
  static CellTree::Cell CellOf(Group& group, const Frame& frame, const Box& box);
  static uint64_t Number(const Group& group, uint32_t levels, const CellTree::Cell& cell) {
    uint64_t number = 0;
    for (uint32_t i = 0; i < levels; ++i) {
      number = number * static_cast<uint64_t>(group.cells[i]) + cell[i];
    }
    return number;
  }
  // Puts the region into the list of a cell of its group.
  void Link(Group& group, uint32_t& head, Region& region, uint32_t id) {
    region.next = head;
    head = id + 1;
    region.flags |= Region::kLive | Region::kLinked;
    ++group.live;
    ++group.inserted;
    ++size_;
  }
  // Empties the list of a cell if it has one region only, which has left the index. Returns whether
  // it did.
  static bool DropStale(RegionTable& table, uint32_t& head);
  // Takes a region out of the list that it is in.
  void Unlink(RegionTable& table, uint32_t id);
  void FindInGroup(RegionTable& table, Group& group, const Box& box, uint32_t id, bool all,
                   std::vector<uint32_t>& found);
  // Returns whether a region is left in the cell.
  bool FindInCell(RegionTable& table, Group& group, uint64_t cell, uint32_t id, bool all,
                  std::vector<uint32_t>& found);
  bool FindInList(RegionTable& table, CellTable& heads, uint64_t cell, uint32_t id,
                  std::vector<uint32_t>& found);
  void BuildTree(RegionTable& table, Group& group);

  std::vector<Frame> frames_;
  std::vector<Group> groups_;
  uint32_t size_ = 0;
  uint32_t quiet_ = 0;
  uint64_t steps_ = 0;
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
