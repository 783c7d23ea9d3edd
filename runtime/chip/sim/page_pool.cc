#include "runtime/chip/sim/page_pool.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "runtime/base/error.h"
#include "runtime/base/log.h"
#include "runtime/base/status_macros.h"

namespace pto::engine {
namespace {

absl::Status HostRefuses(uint64_t bytes) {
  const int error = errno;
  return Error(
      reason::kChipMemoryExhausted,
      absl::StrCat("the host refuses ", bytes, " bytes: ", std::generic_category().message(error)));
}

}  // namespace

PagePool::PagePool(std::shared_ptr<MappingBudget> mappings, Pager& pager)
    : mappings_(std::move(mappings)), pager_(pager) {}

PagePool::~PagePool() {
  MutexLock lock(mutex_);
  RetryStuck();
  for (const auto& [data, region] : regions_) {
    // The process ends, or a chip of a test. What cannot be unmapped has at least no pages.
    if (!pager_.Unmap(data, region.bytes)) (void)pager_.Empty(data, region.bytes);
    mappings_->Give(1);
  }
  mappings_->Give(stuck_.size() * kSharedMappings);
}

absl::Status PagePool::NoMappings(uint64_t wanted) const {
  return Error(reason::kChipMemoryExhausted,
               absl::StrCat("the memory of all chips may have ", mappings_->limit(),
                            " mappings and has ", mappings_->used()))
      .Limit("mappings", mappings_->limit(), mappings_->used(), wanted)
      .Hint("use fewer and larger buffers, or raise vm.max_map_count");
}

absl::StatusOr<std::byte*> PagePool::Take(uint64_t bytes) {
  MutexLock lock(mutex_);
  RetryStuck();
  // Half of the mappings are for arenas and for files.
  if (bytes >= kOwnMapping && mappings_->used() < mappings_->limit() / 2) return TakeOwn(bytes);
  return TakeFromArena(bytes);
}

absl::StatusOr<std::byte*> PagePool::TakeOwn(uint64_t bytes) {
  PTO_ASSIGN_OR_RETURN(const Regions::iterator region, Grow(bytes));
  region->second.used = bytes;
  region->second.own = true;
  --idle_;
  return region->first;
}

absl::StatusOr<std::byte*> PagePool::TakeFromArena(uint64_t bytes) {
  auto found = free_by_size_.lower_bound({bytes, nullptr});
  if (found == free_by_size_.end()) {
    absl::StatusOr<Regions::iterator> arena = Grow(std::max(next_arena_, bytes));
    // The host may have less.
    if (!arena.ok() && next_arena_ > bytes) arena = Grow(bytes);
    if (!arena.ok()) return arena.status();
    next_arena_ = std::min(2 * next_arena_, kLastArena);
    pager_.UseLargePages((*arena)->first, (*arena)->second.bytes, false);
    free_.emplace((*arena)->first, (*arena)->second.bytes);
    found = free_by_size_.emplace((*arena)->second.bytes, (*arena)->first).first;
  }
  const auto [size, data] = *found;
  EraseFree(data, size);
  if (size > bytes) {
    free_.emplace(data + bytes, size - bytes);
    free_by_size_.emplace(size - bytes, data + bytes);
  }
  Region& region = RegionOf(data)->second;
  if (region.used == 0) --idle_;
  region.used += bytes;
  return data;
}

absl::StatusOr<PagePool::Regions::iterator> PagePool::Grow(uint64_t bytes) {
  if (!mappings_->TryTake(1)) {
    ReleaseIdle(0);
    if (!mappings_->TryTake(1)) return NoMappings(1);
  }
  std::byte* const data = bytes >= kLarge ? MapAligned(bytes) : pager_.Map(nullptr, bytes);
  if (data == nullptr) {
    const absl::Status refused = HostRefuses(bytes);
    mappings_->Give(1);
    return refused;
  }
  ++idle_;
  return regions_.emplace(data, Region{bytes}).first;
}

std::byte* PagePool::MapAligned(uint64_t bytes) {
  std::byte* const data = pager_.Map(nullptr, bytes + kLargePage);
  if (data == nullptr) return nullptr;
  const uint64_t before = -reinterpret_cast<uintptr_t>(data) % kLargePage;
  std::byte* const first = data + before;
  // What stays mapped costs no memory, and it is a part of the same mapping.
  if (before > 0 && !pager_.Unmap(data, before)) NoteRefusal("munmap");
  if (before < kLargePage && !pager_.Unmap(first + bytes, kLargePage - before)) {
    NoteRefusal("munmap");
  }
  pager_.UseLargePages(first, bytes, true);
  return first;
}

bool PagePool::Renew(std::byte* data, uint64_t bytes) {
  if (pager_.Map(data, bytes) != data) return false;
  // As the rest of its arena: only mappings that are alike become one again.
  pager_.UseLargePages(data, bytes, false);
  return true;
}

void PagePool::Give(std::byte* data, uint64_t bytes) {
  // Without the lock, as it may take long; the range is still the caller's.
  const bool emptied = pager_.Empty(data, bytes);
  // Pages that are locked, for example, cannot be freed so. Nobody may see what was in them.
  const bool renewed = !emptied && Renew(data, bytes);
  if (!emptied && !renewed) std::memset(data, 0, bytes);
  MutexLock lock(mutex_);
  if (!emptied) NoteRefusal("madvise");
  AddFree(data, bytes);
}

void PagePool::GiveShared(std::byte* data, uint64_t bytes) {
  const bool renewed = Renew(data, bytes);
  MutexLock lock(mutex_);
  if (!renewed) {
    NoteRefusal("mmap");
    stuck_.emplace_back(data, bytes);
    return;
  }
  mappings_->Give(kSharedMappings);
  AddFree(data, bytes);
}

absl::Status PagePool::TakeSharing() {
  if (mappings_->TryTake(kSharedMappings)) return absl::OkStatus();
  return NoMappings(kSharedMappings);
}

void PagePool::AddFree(std::byte* data, uint64_t bytes) {
  const auto region = RegionOf(data);
  std::byte* const begin = region->first;
  std::byte* const end = begin + region->second.bytes;
  region->second.used -= bytes;
  auto after = free_.upper_bound(data);
  if (after != free_.end() && after->first == data + bytes && after->first < end) {
    const uint64_t more = after->second;
    EraseFree(data + bytes, more);
    bytes += more;
  }
  after = free_.upper_bound(data);
  if (after != free_.begin() && data > begin) {
    if (const auto before = std::prev(after); before->first + before->second == data) {
      const auto [first, more] = *before;
      EraseFree(first, more);
      data = first;
      bytes += more;
    }
  }
  free_.emplace(data, bytes);
  free_by_size_.emplace(bytes, data);
  if (region->second.used > 0) return;
  ++idle_;
  ReleaseIdle(region->second.own ? 0 : 1);
}

void PagePool::ReleaseIdle(size_t keep) {
  for (auto it = regions_.begin(); it != regions_.end() && idle_ > keep;) {
    auto& [data, region] = *it;
    if (region.used > 0) {
      ++it;
      continue;
    }
    if (!pager_.Unmap(data, region.bytes)) {
      // It has no pages and stays as an arena, until the next try.
      NoteRefusal("munmap");
      region.own = false;
      return;
    }
    EraseFree(data, region.bytes);
    mappings_->Give(1);
    --idle_;
    it = regions_.erase(it);
  }
}

void PagePool::RetryStuck() {
  while (!stuck_.empty()) {
    const auto [data, bytes] = stuck_.back();
    if (!Renew(data, bytes)) return;
    stuck_.pop_back();
    mappings_->Give(kSharedMappings);
    AddFree(data, bytes);
  }
}

void PagePool::EraseFree(std::byte* data, uint64_t bytes) {
  free_.erase(data);
  free_by_size_.erase({bytes, data});
}

PagePool::Regions::iterator PagePool::RegionOf(std::byte* data) {
  return std::prev(regions_.upper_bound(data));
}

void PagePool::NoteRefusal(const char* call) {
  const int error = errno;
  if (refused_++ > 0) return;
  PTO_LOG(kWarning, "the host refuses to take memory of a chip back; it is tried again later",
          {{"call", call}, {"error", std::generic_category().message(error)}});
}

PagePool::Stats PagePool::stats() const {
  MutexLock lock(mutex_);
  return {regions_.size(), free_.size(), refused_, stuck_.size()};
}

}  // namespace pto::engine
