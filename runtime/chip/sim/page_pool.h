#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/base/mutex.h"
#include "runtime/chip/mapping_budget.h"
#include "runtime/chip/sim/pager.h"

namespace pto::engine {

// Zeroed pages for the memory of one simulated chip.
//
// The kernel limits the mappings of a process, and refuses to unmap a part of one at that limit. So
// small ranges are cut from large mappings, arenas, and a range that comes back is emptied, which
// needs no mapping. Only large ranges have a mapping of their own. Two ranges never share a page,
// so that one can be moved to a file which another process maps, and the other is not in it.
// Thread-safe.
class PagePool {
 public:
  static constexpr uint64_t kPage = 4096;
  // Ranges of at least this size get a mapping of their own, while there are plenty.
  static constexpr uint64_t kOwnMapping = uint64_t{1} << 20;
  // Ranges of at least this size use large pages: with small ones, a third of the time of a copy is
  // spent on address translation.
  static constexpr uint64_t kLargePage = uint64_t{2} << 20;
  static constexpr uint64_t kLarge = 2 * kLargePage;
  // Arenas grow from the first size to the last.
  static constexpr uint64_t kFirstArena = uint64_t{1} << 20;
  static constexpr uint64_t kLastArena = uint64_t{64} << 20;
  // The most mappings that moving a range to a file adds: the range itself, and the rest behind it.
  static constexpr uint64_t kSharedMappings = 2;

  explicit PagePool(std::shared_ptr<MappingBudget> mappings = MappingBudget::OfThisProcess(),
                    Pager& pager = Pager::Real());
  // All ranges must be back.
  ~PagePool();
  PagePool(const PagePool&) = delete;
  PagePool& operator=(const PagePool&) = delete;

  // `bytes` are whole pages, at least one. RESOURCE_EXHAUSTED / CHIP_MEMORY_EXHAUSTED if the host
  // has no more memory or mappings.
  absl::StatusOr<std::byte*> Take(uint64_t bytes);
  // Gives a range back; its pages are free when this returns. Never fails: what the host refuses
  // now is tried again later.
  void Give(std::byte* data, uint64_t bytes);
  // The same for a range that other mappings have replaced, even in part, with TakeSharing before.
  void GiveShared(std::byte* data, uint64_t bytes);
  // Before a range is moved to a file. CHIP_MEMORY_EXHAUSTED if there are no mappings for that.
  absl::Status TakeSharing();

  struct Stats {
    uint64_t mappings = 0;     // arenas, and ranges with a mapping of their own
    uint64_t free_ranges = 0;  // in arenas
    uint64_t refused = 0;      // calls that the host has refused so far
    uint64_t stuck = 0;        // ranges that wait for another try
  };
  Stats stats() const;

 private:
  struct Region {
    uint64_t bytes = 0;
    uint64_t used = 0;
    bool own = false;  // of one range, with which it goes
  };
  using Regions = std::map<std::byte*, Region>;

  absl::StatusOr<std::byte*> TakeOwn(uint64_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<std::byte*> TakeFromArena(uint64_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Maps a region and adds it, without free ranges.
  absl::StatusOr<Regions::iterator> Grow(uint64_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::byte* MapAligned(uint64_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Puts an empty range among the free ones of its region. Releases regions that have only free
  // ranges, but for one arena, which is for the next small range.
  void AddFree(std::byte* data, uint64_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EraseFree(std::byte* data, uint64_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Unmaps regions without used ranges, until there are `keep` of them or the host refuses.
  void ReleaseIdle(size_t keep) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Makes pages of a range private and zero again. Returns false if the host refuses.
  bool Renew(std::byte* data, uint64_t bytes);
  void RetryStuck() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void NoteRefusal(const char* call) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Regions::iterator RegionOf(std::byte* data) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status NoMappings(uint64_t wanted) const;

  const std::shared_ptr<MappingBudget> mappings_;
  Pager& pager_;

  mutable Mutex mutex_;
  Regions regions_ ABSL_GUARDED_BY(mutex_);
  size_t idle_ ABSL_GUARDED_BY(mutex_) = 0;  // regions without used ranges
  uint64_t next_arena_ ABSL_GUARDED_BY(mutex_) = kFirstArena;
  // Free ranges of all regions, by address and by size. They are empty.
  std::map<std::byte*, uint64_t> free_ ABSL_GUARDED_BY(mutex_);
  std::set<std::pair<uint64_t, std::byte*>> free_by_size_ ABSL_GUARDED_BY(mutex_);
  // Ranges that still show the pages of a file. Nobody may get them.
  std::vector<std::pair<std::byte*, uint64_t>> stuck_ ABSL_GUARDED_BY(mutex_);
  uint64_t refused_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace pto::engine
