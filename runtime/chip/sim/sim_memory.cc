#include "runtime/chip/sim/sim_memory.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "runtime/base/error.h"
#include "runtime/base/status_macros.h"

namespace pto::engine {
namespace {

constexpr uint64_t kPage = PagePool::kPage;
// The amount that ShareSome moves at once; takes some tenths of a millisecond.
constexpr uint64_t kShareStep = uint64_t{1} << 20;

// At least one page, so that every allocation has an address.
uint64_t RoundUp(uint64_t bytes) {
  return bytes == 0 ? kPage : (bytes + kPage - 1) / kPage * kPage;
}

// Adds to an error of the pool which chip and which request it is about.
absl::Status OfChip(const absl::Status& refused, uint32_t chip, uint64_t bytes) {
  const absl::optional<ErrorDetail> detail = GetErrorDetail(refused);
  Error error(reason::kChipMemoryExhausted, absl::StrCat("chips/", chip, " cannot allocate ", bytes,
                                                         " bytes: ", refused.message()));
  error.With("chip", absl::StrCat("chips/", chip));
  if (!detail.has_value()) return error;
  if (detail->quota.has_value()) {
    const Quota& quota = *detail->quota;
    error.Limit(quota.name, quota.limit, quota.usage, quota.requested);
  }
  return error.Hint(detail->hint);
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
  absl::Status ShareNew(const std::shared_ptr<SharingBudget>& budget) override;
  int shared_descriptor() const override { return shared_.load(std::memory_order_acquire); }

 private:
  // Makes the file, unless it is there.
  absl::Status MakeFile(const std::shared_ptr<SharingBudget>& budget);

  const std::shared_ptr<SimMemory> owner_;
  std::unique_ptr<SharedFile> file_;
  uint64_t reserved_ = 0;  // bytes of the file that have pages
  uint64_t moved_ = 0;     // bytes of the allocation that are in the file
  std::atomic<int> shared_{-1};
};

SimAllocation::~SimAllocation() {
  const uint64_t taken = RoundUp(bytes());
  if (file_ != nullptr) {
    owner_->pool_.GiveShared(data(), taken);
  } else {
    owner_->pool_.Give(data(), taken);
  }
  owner_->GiveBack(taken);
}

absl::Status SimAllocation::MakeFile(const std::shared_ptr<SharingBudget>& budget) {
  if (file_ != nullptr) return absl::OkStatus();
  PTO_ASSIGN_OR_RETURN(std::unique_ptr<SharedFile> file,
                       SharedFile::Create(RoundUp(bytes()), budget));
  PTO_RETURN_IF_ERROR(owner_->pool_.TakeSharing());
  file_ = std::move(file);
  return absl::OkStatus();
}

absl::Status SimAllocation::ShareNew(const std::shared_ptr<SharingBudget>& budget) {
  PTO_RETURN_IF_ERROR(MakeFile(budget));
  PTO_RETURN_IF_ERROR(file_->Replace(data()));
  moved_ = reserved_ = RoundUp(bytes());
  shared_.store(file_->descriptor(), std::memory_order_release);
  return absl::OkStatus();
}

absl::Status SimAllocation::PrepareShare(const std::shared_ptr<SharingBudget>& budget) {
  const uint64_t all = RoundUp(bytes());
  PTO_RETURN_IF_ERROR(MakeFile(budget));
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

std::shared_ptr<SimMemory> SimMemory::Create(uint32_t chip, uint64_t total_bytes,
                                             std::shared_ptr<MappingBudget> mappings,
                                             Pager& pager) {
  return std::shared_ptr<SimMemory>(new SimMemory(chip, total_bytes, std::move(mappings), pager));
}

uint64_t SimMemory::HostBytes(uint64_t bytes) const {
  // More is refused anyway.
  return bytes > total_bytes() ? 0 : RoundUp(bytes);
}

absl::StatusOr<std::shared_ptr<Allocation>> SimMemory::Allocate(uint64_t bytes) {
  const uint64_t taken = RoundUp(bytes);
  PTO_RETURN_IF_ERROR(Take(bytes, taken));
  // The host provides the pages when they are first touched.
  const absl::StatusOr<std::byte*> data = pool_.Take(taken);
  if (!data.ok()) {
    GiveBack(taken);
    return OfChip(data.status(), chip(), bytes);
  }
  return std::make_shared<SimAllocation>(shared_from_this(), *data, bytes);
}

}  // namespace pto::engine
