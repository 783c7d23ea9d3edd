#include "runtime/chip/device_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/error.h"
#include "runtime/base/log.h"
#include "runtime/base/status_macros.h"

namespace pto {
namespace {

constexpr uint64_t kPage = 4096;
// Moved to a file at once: whoever waits for that waits some tenths of a millisecond.
constexpr uint64_t kShareStep = uint64_t{1} << 20;

// Large blocks get large pages where the host has them: to look up the small ones costs a copy of
// memory a third of its time.
constexpr uint64_t kLargePage = uint64_t{2} << 20;
constexpr uint64_t kLarge = 2 * kLargePage;

// As mmap. Large blocks begin with a large page.
void* Map(uint64_t bytes) {
  const uint64_t extra = bytes >= kLarge ? kLargePage : 0;
  void* const data =
      mmap(nullptr, bytes + extra, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED || extra == 0) return data;
  const uint64_t before = -reinterpret_cast<uintptr_t>(data) % kLargePage;
  auto* const first = static_cast<std::byte*>(data) + before;
  if (before > 0) munmap(data, before);
  munmap(first + bytes, extra - before);
  // It works without, only slower.
  (void)madvise(first, bytes, MADV_HUGEPAGE);
  return first;
}

// At least one page: the host maps nothing smaller, and every block has an address.
uint64_t RoundUp(uint64_t bytes) {
  return bytes == 0 ? kPage : (bytes + kPage - 1) / kPage * kPage;
}

}  // namespace

MemoryBlock::MemoryBlock(std::shared_ptr<DeviceMemory> owner, std::shared_ptr<MemoryBlock> whole,
                         std::byte* data, uint64_t bytes)
    : owner_(std::move(owner)), whole_(std::move(whole)), data_(data), bytes_(bytes) {}

std::shared_ptr<MemoryBlock> MemoryBlock::Part(std::shared_ptr<MemoryBlock> whole, uint64_t offset,
                                               uint64_t bytes) {
  PTO_CHECK(offset <= whole->bytes() && bytes <= whole->bytes() - offset,
            "a part lies within its block");
  std::shared_ptr<DeviceMemory> owner = whole->owner_;
  std::byte* const data = whole->data() + offset;
  return std::shared_ptr<MemoryBlock>(
      new MemoryBlock(std::move(owner), std::move(whole), data, bytes));
}

MemoryBlock::~MemoryBlock() {
  if (whole_ != nullptr) return;
  munmap(data_, RoundUp(bytes_));
  owner_->used_bytes_.fetch_sub(RoundUp(bytes_), std::memory_order_relaxed);
  owner_->NoteUse();
}

uint32_t MemoryBlock::chip() const { return owner_->chip(); }

absl::Status MemoryBlock::PrepareShare(const std::shared_ptr<SharingBudget>& budget) {
  PTO_CHECK(can_share(), "a part is never shared");
  const uint64_t all = RoundUp(bytes_);
  if (file_ == nullptr) {
    PTO_ASSIGN_OR_RETURN(file_, SharedFile::Create(all, budget));
  }
  const uint64_t until = std::min(all, moved_ + kShareStep);
  if (reserved_ >= until) return absl::OkStatus();
  PTO_RETURN_IF_ERROR(file_->Reserve(reserved_, until - reserved_));
  reserved_ = until;
  return absl::OkStatus();
}

absl::StatusOr<bool> MemoryBlock::ShareSome() {
  if (moved_ < reserved_) {
    PTO_RETURN_IF_ERROR(file_->TakeOver(data_ + moved_, moved_, reserved_ - moved_));
    moved_ = reserved_;
  }
  if (file_ == nullptr || moved_ < RoundUp(bytes_)) return false;
  shared_.store(file_->descriptor(), std::memory_order_release);
  return true;
}

std::shared_ptr<DeviceMemory> DeviceMemory::Create(uint32_t chip, uint64_t total_bytes) {
  return std::shared_ptr<DeviceMemory>(new DeviceMemory(chip, total_bytes));
}

absl::StatusOr<std::shared_ptr<MemoryBlock>> DeviceMemory::Allocate(uint64_t bytes) {
  const uint64_t used = used_bytes();
  const auto refuse = [&](absl::string_view why) -> absl::Status {
    return Error(reason::kChipMemoryExhausted,
                 absl::StrCat("chips/", chip_, " has no ", bytes, " bytes left: ", why))
        .With("chip", absl::StrCat("chips/", chip_))
        .Limit("memory_total_bytes", total_bytes_, used, bytes);
  };
  if (bytes > total_bytes_) return refuse(absl::StrCat("it has ", total_bytes_, " in all"));
  const uint64_t taken = RoundUp(bytes);
  if (used_bytes_.fetch_add(taken, std::memory_order_relaxed) + taken > total_bytes_) {
    used_bytes_.fetch_sub(taken, std::memory_order_relaxed);
    NoteUse();  // another one may have noted the sum
    return refuse(absl::StrCat(used, " of ", total_bytes_, " are in use"));
  }
  // Fresh pages are zero, and the host gives them only when they are touched.
  void* data = Map(taken);
  if (data == MAP_FAILED) {
    const int error = errno;
    used_bytes_.fetch_sub(taken, std::memory_order_relaxed);
    NoteUse();
    return refuse(absl::StrCat("the host refuses: ", std::strerror(error)));
  }
  NoteUse();
  return std::shared_ptr<MemoryBlock>(
      new MemoryBlock(shared_from_this(), nullptr, static_cast<std::byte*>(data), bytes));
}

}  // namespace pto
