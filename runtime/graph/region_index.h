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

namespace pto::engine {

// A footprint at an offset of a memory space, and its users. AccessMap defines the last fields; the
// index maintains `next` and `group` of the regions that it contains.
struct Region {
  enum Flag : uint8_t {
    kLive = 1 << 0,         // in the index of its space
    kLinked = 1 << 1,       // in the list of its cell; if not live, until a search visits the list
    kReadChecks = 1 << 2,   // a read has to check other regions
    kWriteChecks = 1 << 3,  // a write has to check other regions
    kForwarded = 1 << 4,    // identical to region `next`, its representative
    kOneReader = 1 << 5,    // `readers` is the reader
    kManyReaders = 1 << 6,  // `readers` is the newest node of a list
    kQuiet = 1 << 7,        // only read; in the second list of its cell
  };
  int64_t begin = 0;  // in bytes
  uint32_t footprint = 0;
  uint32_t space = 0;
  uint32_t writer = 0;
  uint32_t readers = 0;
  uint32_t next = 0;  // in its cell's list, plus 1; 0 ends the list
  uint8_t group = 0;
  uint8_t flags = 0;
};
static_assert(sizeof(Region) == 32);

// All regions, and the footprints that they refer to.
struct RegionTable {
  BigVector<Region> regions;
  std::vector<Footprint> footprints;

  const Footprint& footprint(const Region& region) const { return footprints[region.footprint]; }
};

// Finds the regions of one space that may overlap a given region, in a time that hardly depends on
// their number.
//
// A byte offset is written as a mixed-radix number whose digits come from the strides of the
// regions: row and column for tiles of a matrix. A region is then a box, and column tiles, whose
// byte ranges all overlap, are disjoint boxes. Such a set of strides is a frame; a space has few.
// The boxes of one size form a group with its own grid, whose cells have that size. A search among
// boxes of similar size visits a few cells. A search among much smaller boxes uses a tree over the
// used cells.
//
// Quiet regions are found only by searches that ask for them.
//
// Not thread-safe. All calls must get the same table.
class RegionIndex {
 public:
  // The region must not be in this index, nor still be linked in another one.
  void Insert(RegionTable& table, uint32_t id, bool quiet = false);
  // Inserts the region if it obviously overlaps no other region in the index: all have its length
  // and are aligned to it, like the rows of a matrix or equal pieces of a buffer. Otherwise returns
  // false. The region must not be in the index.
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
  // Makes a quiet region in the index normal.
  void Wake(RegionTable& table, uint32_t id);
  // Unlinks a region that has left the index from the list of its cell.
  void Drop(RegionTable& table, uint32_t id) { Unlink(table, id); }

  // Appends all regions in the index, except `id`, whose boxes intersect that of region `id`, and
  // possibly more; quiet ones only if `all`. Region `id` need not be in the index.
  void FindNear(RegionTable& table, uint32_t id, bool all, std::vector<uint32_t>& found);

  uint32_t size() const { return size_; }
  // The number of quiet regions in the index.
  uint32_t quiet() const { return quiet_; }
  // The number of cells, regions and nodes visited since the last call of this function.
  uint64_t TakeSteps() { return std::exchange(steps_, 0); }
  size_t bytes() const;

 private:
  static constexpr uint32_t kMaxLevels = Footprint::kMaxDims;
  static constexpr size_t kMaxFrames = 4;
  static constexpr uint32_t kNone = 0xffffffff;

  struct Box {
    std::array<int64_t, kMaxLevels> low, high;
  };

  // The digits of a byte offset: strides that decrease to 1, each a multiple of the next.
  struct Frame {
    uint32_t levels = 0;
    std::array<int64_t, kMaxLevels> strides{};
    std::array<int64_t, kMaxLevels> sizes{};  // of each digit except the first, which is unbounded
    std::array<Divider, kMaxLevels> dividers;

    // How far each digit of a footprint extends beyond that of its first byte; a cache of the
    // footprints used last.
    struct Reach {
      uint32_t footprint = kNone;
      std::array<int64_t, kMaxLevels> digits{};
    };
    std::array<Reach, 4> reaches;
  };

  // Boxes of one size, or of similar size if there are many sizes.
  struct Group {
    uint32_t frame = 0;
    uint32_t rounding = 0;                     // how box sizes are rounded to the cell size
    std::array<int64_t, kMaxLevels> extent{};  // of a cell; boxes are at most this large
    std::array<int64_t, kMaxLevels> shift{};   // added to a digit before the division
    std::array<int64_t, kMaxLevels> cells{};   // in each level except the first
    std::array<Divider, kMaxLevels> dividers;
    std::array<bool, kMaxLevels> inside{};  // whether no box so far crosses the end of its cell
    uint32_t live = 0;
    uint64_t inserted = 0;  // number of insertions
    uint64_t walked = 0;    // cells that searches visited one by one
    CellTable heads;
    CellTable quiet_heads;
    // The cells that have a region. Created when a search first needs it.
    std::unique_ptr<CellTree> tree;
  };

  uint32_t FrameOf(const RegionTable& table, uint32_t footprint);
  static void FindBox(Frame& frame, const RegionTable& table, const Region& region, Box& box);
  uint8_t GroupOf(uint32_t frame, const Box& box);
  // Returns the cell in which a box of the group begins, and records whether the box ends there
  // too.
  static CellTree::Cell CellOf(Group& group, const Frame& frame, const Box& box);
  static uint64_t Number(const Group& group, uint32_t levels, const CellTree::Cell& cell) {
    uint64_t number = 0;
    for (uint32_t i = 0; i < levels; ++i) {
      number = number * static_cast<uint64_t>(group.cells[i]) + cell[i];
    }
    return number;
  }
  // Adds the region to the list of a cell of its group.
  void Link(Group& group, uint32_t& head, Region& region, uint32_t id) {
    region.next = head;
    head = id + 1;
    region.flags |= Region::kLive | Region::kLinked;
    ++group.live;
    ++group.inserted;
    ++size_;
  }
  // Empties the list of a cell if its only region has left the index. Returns whether it did.
  static bool DropStale(RegionTable& table, uint32_t& head);
  // Removes a region from its list.
  void Unlink(RegionTable& table, uint32_t id);
  void FindInGroup(RegionTable& table, Group& group, const Box& box, uint32_t id, bool all,
                   std::vector<uint32_t>& found);
  // Returns whether the cell still has a region.
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
  // The footprint of all regions, as long as all are plain ranges that fill one cell each.
  uint32_t tiling_ = kNone;
  // The frame of the last footprint.
  uint32_t last_footprint_ = kNone;
  uint32_t last_frame_ = 0;
  // The boxes of the last searched region, which is usually inserted next.
  uint32_t last_found_ = kNone;
  uint32_t last_boxes_count_ = 0;
  std::array<Box, kMaxFrames> last_boxes_;
};

}  // namespace pto::engine
