#include "runtime/chip/sim/sim_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"

namespace pto::engine {
namespace {

constexpr uint64_t kPage = 4096;
// The amount that ShareSome moves at once; takes some tenths of a millisecond.
constexpr uint64_t kShareStep = uint64_t{1} << 20;

// Large allocations use large pages if the host has them: with small pages, a third of the time of
// a copy is spent on address translation.
constexpr uint64_t kLargePage = uint64_t{2} << 20;
constexpr uint64_t kLarge = 2 * kLargePage;

// Like mmap, but large allocations are aligned to a large page.
void* Map(uint64_t bytes) {
  const uint64_t extra = bytes >= kLarge ? kLargePage : 0;
  void* const data =
      mmap(nullptr, bytes + extra, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED || extra == 0) return data;
  const uint64_t before = -reinterpret_cast<uintptr_t>(data) % kLargePage;
  auto* const first = static_cast<std::byte*>(data) + before;
  if (before > 0) munmap(data, before);
  munmap(first + bytes, extra - before);
  // Only an optimisation, so errors are ignored.
  (void)madvise(first, bytes, MADV_HUGEPAGE);
  return first;
}

// At least one page, so that every allocation has an address.
uint64_t RoundUp(uint64_t bytes) {
  return bytes == 0 ? kPage : (bytes + kPage - 1) / kPage * kPage;
}

}  // namespace

// Pages of this process. Moved to a file when they are shared.
class SimAllocation final : public HostAllocation {
 public:
  SimAllocation(std::shared_ptr<SimMemory> owner, std::byte* data, uint64_t bytes)
      : HostAllocation(owner->chip(), bytes, data), owner_(std::move(owner)) {}
  ~SimAllocation() override;

  bool can_share() const override { return true; }
  absl::Status PrepareShare(const std::shared_ptr<SharingBudget>& budget) override;
  absl::StatusOr<bool> ShareSome() override;
  int shared_descriptor() const override { return shared_.load(std::memory_order_acquire); }

 private:
  const std::shared_ptr<SimMemory> owner_;
  std::unique_ptr<SharedFile> file_;
  uint64_t reserved_ = 0;  // bytes of the file that have pages
  uint64_t moved_ = 0;     // bytes of the allocation that are in the file
  std::atomic<int> shared_{-1};
};

SimAllocation::~SimAllocation() {
  munmap(data(), RoundUp(bytes()));
  owner_->GiveBack(RoundUp(bytes()));
}

absl::Status SimAllocation::PrepareShare(const std::shared_ptr<SharingBudget>& budget) {
  const uint64_t all = RoundUp(bytes());
  if (file_ == nullptr) {
    PTO_ASSIGN_OR_RETURN(file_, SharedFile::Create(all, budget));
  }
  const uint64_t until = std::min(all, moved_ + kShareStep);
  if (reserved_ >= until) return absl::OkStatus();
  PTO_RETURN_IF_ERROR(file_->Reserve(reserved_, until - reserved_));
  reserved_ = until;
  return absl::OkStatus();
}

absl::StatusOr<bool> SimAllocation::ShareSome() {
  if (moved_ < reserved_) {
    PTO_RETURN_IF_ERROR(file_->TakeOver(data() + moved_, moved_, reserved_ - moved_));
    moved_ = reserved_;
  }
  if (file_ == nullptr || moved_ < RoundUp(bytes())) return false;
  shared_.store(file_->descriptor(), std::memory_order_release);
  return true;
}

std::shared_ptr<SimMemory> SimMemory::Create(uint32_t chip, uint64_t total_bytes) {
  return std::shared_ptr<SimMemory>(new SimMemory(chip, total_bytes));
}

absl::StatusOr<std::shared_ptr<Allocation>> SimMemory::Allocate(uint64_t bytes) {
  const uint64_t taken = RoundUp(bytes);
  PTO_RETURN_IF_ERROR(Take(bytes, taken));
  // Fresh pages are zero; the host provides them when they are first touched.
  void* const data = Map(taken);
  if (data == MAP_FAILED) {
    const int error = errno;
    GiveBack(taken);
    return Exhausted(bytes, used_bytes(), absl::StrCat("the host refuses: ", std::strerror(error)));
  }
  return std::make_shared<SimAllocation>(shared_from_this(), static_cast<std::byte*>(data), bytes);
}

}  // namespace pto::engine
