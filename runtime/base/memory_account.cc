#include "runtime/base/memory_account.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "runtime/base/error.h"
#include "runtime/base/status_macros.h"

namespace pto {

bool MemoryAccount::TryTake(uint64_t bytes) {
  const uint64_t before = used_.fetch_add(bytes, std::memory_order_relaxed);
  if (Fits(before, bytes) && (parent_ == nullptr || parent_->TryTake(bytes))) return true;
  used_.fetch_sub(bytes, std::memory_order_relaxed);
  return false;
}

absl::Status MemoryAccount::Take(uint64_t bytes, absl::string_view what) {
  return TryTake(bytes) ? absl::OkStatus() : Refusal(bytes, what);
}

void MemoryAccount::Charge(uint64_t bytes) {
  for (MemoryAccount* account = this; account != nullptr; account = account->parent_.get()) {
    account->used_.fetch_add(bytes, std::memory_order_relaxed);
  }
}

void MemoryAccount::Give(uint64_t bytes) {
  for (MemoryAccount* account = this; account != nullptr; account = account->parent_.get()) {
    account->used_.fetch_sub(bytes, std::memory_order_relaxed);
  }
}

uint64_t MemoryAccount::Missing(uint64_t bytes) const {
  uint64_t missing = 0;
  for (const MemoryAccount* account = this; account != nullptr; account = account->parent_.get()) {
    const uint64_t used = account->used();
    if (account->Fits(used, bytes)) continue;
    const uint64_t limit = account->limit();
    const uint64_t room = limit - std::min(used, limit);
    missing = std::max(missing, bytes - std::min(room, bytes));
  }
  return missing;
}

absl::Status MemoryAccount::Refusal(uint64_t bytes, absl::string_view what) const {
  const uint64_t used = this->used();
  const uint64_t limit = this->limit();
  // The one that refuses is the highest that has no room; when others have made room meanwhile, it
  // is this one.
  if (parent_ != nullptr && Fits(used, bytes) && parent_->Missing(bytes) > 0) {
    return parent_->Refusal(bytes, what);
  }
  return Error(reason::kMemoryBudget,
               absl::StrCat(holder_, " may hold ", limit, " bytes of the machine's memory, ",
                            "holds ", used, ", and ", what, " needs ", bytes, " more"))
      .With("holder", holder_)
      .With("limit", limit)
      .With("usage", used)
      .With("requested", bytes)
      .Limit(limit_name_, limit, used, bytes);
}

absl::StatusOr<HostCharge> HostCharge::Take(std::shared_ptr<MemoryAccount> account, uint64_t bytes,
                                            absl::string_view what) {
  HostCharge charge(std::move(account));
  PTO_RETURN_IF_ERROR(charge.Resize(bytes, what));
  return charge;
}

HostCharge HostCharge::Part(uint64_t bytes) {
  HostCharge part(account_);
  part.bytes_ = std::min(bytes, bytes_);
  bytes_ -= part.bytes_;
  return part;
}

absl::Status HostCharge::Resize(uint64_t bytes, absl::string_view what) {
  if (account_ == nullptr) return absl::OkStatus();
  if (bytes > bytes_) {
    PTO_RETURN_IF_ERROR(account_->Take(bytes - bytes_, what));
  } else if (bytes < bytes_) {
    account_->Give(bytes_ - bytes);
  }
  bytes_ = bytes;
  return absl::OkStatus();
}

bool HostCharge::TryResize(uint64_t bytes) {
  if (account_ == nullptr) return true;
  if (bytes > bytes_) {
    if (!account_->TryTake(bytes - bytes_)) return false;
  } else if (bytes < bytes_) {
    account_->Give(bytes_ - bytes);
  }
  bytes_ = bytes;
  return true;
}

void HostCharge::ForceResize(uint64_t bytes) {
  if (account_ == nullptr) return;
  if (bytes > bytes_) {
    account_->Charge(bytes - bytes_);
  } else if (bytes < bytes_) {
    account_->Give(bytes_ - bytes);
  }
  bytes_ = bytes;
}

}  // namespace pto
