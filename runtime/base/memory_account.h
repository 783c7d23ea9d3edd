#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace pto {

// Memory of the host that is held for somebody: for one client, or for all. What counts in an
// account counts in its parent, too. An account only counts; who holds the memory takes and gives.
// Thread-safe; to take or to give is one atomic addition for each account on the way up.
class MemoryAccount {
 public:
  // `holder` begins the message of a refusal, such as `client uid-1000`. `limit_name` is what the
  // limit is called in QuotaViolation.
  MemoryAccount(std::string holder, absl::string_view limit_name, uint64_t limit,
                std::shared_ptr<MemoryAccount> parent = nullptr)
      : holder_(std::move(holder)),
        limit_name_(limit_name),
        limit_(limit),
        parent_(std::move(parent)) {}
  MemoryAccount(const MemoryAccount&) = delete;
  MemoryAccount& operator=(const MemoryAccount&) = delete;

  // Takes the bytes here and above, or nowhere.
  bool TryTake(uint64_t bytes);
  // The same, with an error: MEMORY_BUDGET, with limit, usage and request. `what` is what needs the
  // memory, such as `a buffer`.
  absl::Status Take(uint64_t bytes, absl::string_view what);
  // Takes the bytes even beyond the limits: for small amounts that cannot be refused.
  void Charge(uint64_t bytes);
  void Give(uint64_t bytes);

  const std::string& holder() const { return holder_; }
  uint64_t limit() const { return limit_.load(std::memory_order_relaxed); }
  // From now on. What exceeds a smaller limit stays.
  void SetLimit(uint64_t limit) { limit_.store(limit, std::memory_order_relaxed); }
  uint64_t used() const { return used_.load(std::memory_order_relaxed); }
  // How many bytes are missing for this request, here or above; 0 when it fits now.
  uint64_t Missing(uint64_t bytes) const;
  const std::shared_ptr<MemoryAccount>& parent() const { return parent_; }

 private:
  absl::Status Refusal(uint64_t bytes, absl::string_view what) const;
  bool Fits(uint64_t before, uint64_t bytes) const {
    const uint64_t limit = this->limit();
    return bytes <= limit && before <= limit - bytes;
  }

  const std::string holder_;
  const std::string limit_name_;
  std::atomic<uint64_t> limit_;
  const std::shared_ptr<MemoryAccount> parent_;
  std::atomic<uint64_t> used_{0};
};

// Bytes taken from an account, given back by the destructor. Not thread-safe.
class HostCharge {
 public:
  HostCharge() = default;
  // Nothing is counted without an account.
  explicit HostCharge(std::shared_ptr<MemoryAccount> account) : account_(std::move(account)) {}
  static absl::StatusOr<HostCharge> Take(std::shared_ptr<MemoryAccount> account, uint64_t bytes,
                                         absl::string_view what);
  HostCharge(HostCharge&& other) noexcept { *this = std::move(other); }
  HostCharge& operator=(HostCharge&& other) noexcept {
    std::swap(account_, other.account_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~HostCharge() {
    if (account_ != nullptr && bytes_ > 0) account_->Give(bytes_);
  }

  uint64_t bytes() const { return bytes_; }
  // Splits off a separate charge, of at most what there is.
  HostCharge Part(uint64_t bytes);
  // Makes it this many bytes. What is more is taken first: MEMORY_BUDGET, and then it stays as it
  // was.
  absl::Status Resize(uint64_t bytes, absl::string_view what);
  // The same without an error; returns whether it worked.
  bool TryResize(uint64_t bytes);
  // The same, even beyond the limits.
  void ForceResize(uint64_t bytes);

 private:
  std::shared_ptr<MemoryAccount> account_;
  uint64_t bytes_ = 0;
};

}  // namespace pto
