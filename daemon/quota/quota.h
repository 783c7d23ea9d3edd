#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "daemon/auth/principal.h"
#include "daemon/model/limits.h"
#include "daemon/quota/memory_budget.h"
#include "daemon/usage/usage_counter.h"
#include "runtime/base/memory_account.h"
#include "runtime/base/mutex.h"
#include "runtime/chip/device_memory.h"

// Limits how much of each resource a session, and all sessions of one client together, may hold. A
// client is a principal: whoever the connection belongs to, not who the request says.
namespace pto::daemon {

enum class Resource : uint8_t {
  kSessions,
  kDeviceBytes,    // until the last run that uses them has released them
  kWindows,        // of domains, one per rank
  kRuns,           // queued or running
  kTasks,          // of queued or running runs
  kEventLogBytes,  // maximum size of a session's log
};
inline constexpr size_t kResources = 6;

// The usage and limits of one holder. Thread-safe.
class QuotaAccount {
 public:
  using Limits = std::array<uint64_t, kResources>;

  // `level` is `session` or `client`; names of limits contain it.
  QuotaAccount(absl::string_view level, std::string owner, const Limits& limits)
      : level_(level), owner_(std::move(owner)) {
    SetLimits(limits);
  }

  // From now on. What exceeds a smaller limit stays.
  void SetLimits(const Limits& limits);

  // QUOTA_… with limit, usage and request if the limit would be exceeded; then nothing is taken.
  absl::Status Take(Resource resource, uint64_t amount);
  // Takes the amount even beyond the limit: for callers that wait for room before they take more.
  void Charge(Resource resource, uint64_t amount) {
    used_[static_cast<size_t>(resource)].fetch_add(amount, std::memory_order_acq_rel);
  }
  void Give(Resource resource, uint64_t amount) {
    used_[static_cast<size_t>(resource)].fetch_sub(amount, std::memory_order_seq_cst);
    // A waiter sets the flag before it checks for room: one of the two sees the other.
    if (resource == Resource::kTasks && awaited_.load(std::memory_order_seq_cst)) TellTaskRoom();
  }
  // Returns true if the number of tasks is below the limit. Otherwise `waiter` is called once when
  // it may be, by the thread that gives tasks back; one waiter per `who`.
  bool AwaitTaskRoom(const void* who, std::function<void()> waiter);
  void ForgetTaskWaiter(const void* who);
  uint64_t used(Resource resource) const {
    return used_[static_cast<size_t>(resource)].load(std::memory_order_acquire);
  }
  const std::string& owner() const { return owner_; }

 private:
  bool HasTaskRoom() const {
    constexpr auto kIndex = static_cast<size_t>(Resource::kTasks);
    return used_[kIndex].load(std::memory_order_seq_cst) <
           limits_[kIndex].load(std::memory_order_relaxed);
  }
  void TellTaskRoom();

  const std::string level_;
  const std::string owner_;
  std::array<std::atomic<uint64_t>, kResources> limits_{};
  std::array<std::atomic<uint64_t>, kResources> used_{};
  std::atomic<bool> awaited_{false};  // whether there are waiters
  Mutex waiter_mutex_;
  std::map<const void*, std::function<void()>> waiters_ ABSL_GUARDED_BY(waiter_mutex_);
};

// The accounts of a session and of its client. Thread-safe.
class SessionQuota {
 public:
  // `usage` counts device memory; nullptr when nothing does.
  SessionQuota(const Limits& limits, std::string session, std::shared_ptr<QuotaAccount> client,
               std::shared_ptr<MemoryBudget> budget, std::shared_ptr<UsageCounter> usage);

  // Takes from both accounts or from none.
  absl::Status Take(Resource resource, uint64_t amount);
  void Give(Resource resource, uint64_t amount);
  uint64_t used(Resource resource) const { return own_.used(resource); }

  // Tasks of open runs. They count only for the client's limit; TaskBudget counts them for the
  // session.
  void ChargeOpenTasks(uint64_t tasks) { client_->Charge(Resource::kTasks, tasks); }
  void GiveOpenTasks(uint64_t tasks) { client_->Give(Resource::kTasks, tasks); }
  // As QuotaAccount::AwaitTaskRoom, for the client.
  bool AwaitTaskRoom(const void* who, std::function<void()> waiter) {
    return client_->AwaitTaskRoom(who, std::move(waiter));
  }
  void ForgetTaskWaiter(const void* who) { client_->ForgetTaskWaiter(who); }

  // The client's part of the machine's memory.
  const std::shared_ptr<MemoryAccount>& memory() const { return memory_; }
  MemoryBudget& budget() const { return *budget_; }
  // Does what may be refused for want of memory; if it is, once more after others have freed what
  // they can do without. Call it without locks.
  template <typename Do>
  auto WithRoom(Do make) -> decltype(make()) {
    auto made = make();
    uint64_t bytes = 0;
    if (made.ok() || !WantsMemory(made, &bytes)) return made;
    if (!budget_->MakeRoom(*memory_, bytes)) return made;
    return make();
  }

 private:
  QuotaAccount own_;
  const std::shared_ptr<QuotaAccount> client_;
  const std::shared_ptr<MemoryBudget> budget_;
  const std::shared_ptr<MemoryAccount> memory_;
  const std::shared_ptr<UsageCounter> usage_;
};

// A taken amount, given back by the destructor.
class QuotaCharge {
 public:
  QuotaCharge() = default;
  static absl::StatusOr<QuotaCharge> Take(std::shared_ptr<SessionQuota> quota, Resource resource,
                                          uint64_t amount);
  QuotaCharge(QuotaCharge&& other) noexcept { *this = std::move(other); }
  QuotaCharge& operator=(QuotaCharge&& other) noexcept {
    std::swap(quota_, other.quota_);
    std::swap(resource_, other.resource_);
    std::swap(amount_, other.amount_);
    return *this;
  }
  ~QuotaCharge() {
    if (quota_ != nullptr) quota_->Give(resource_, amount_);
  }

  // Splits off a separate charge.
  QuotaCharge Part(uint64_t amount);

 private:
  std::shared_ptr<SessionQuota> quota_;
  Resource resource_ = Resource::kSessions;
  uint64_t amount_ = 0;
};

// The charge for device memory: its bytes, the windows in it, and what it takes of the machine's
// memory.
class MemoryCharge {
 public:
  MemoryCharge() = default;
  // Takes everything that a request needs at once, so that an error describes the whole request.
  // Without a quota nothing is charged. QUOTA_MEMORY, QUOTA_WINDOWS, MEMORY_BUDGET.
  static absl::StatusOr<MemoryCharge> Take(const std::shared_ptr<SessionQuota>& quota,
                                           uint64_t bytes, uint64_t windows = 0,
                                           uint64_t host_bytes = 0);

  // Splits off a separate charge.
  MemoryCharge Part(uint64_t bytes, uint64_t windows = 0, uint64_t host_bytes = 0);

 private:
  QuotaCharge windows_;
  QuotaCharge bytes_;
  HostCharge host_;
};

// What an allocation takes of the machine's memory, with what is known about it.
uint64_t HostBytes(const engine::DeviceMemory& memory, uint64_t bytes);

// Memory that is charged until its last reference is gone.
absl::StatusOr<std::shared_ptr<engine::Allocation>> AllocateCharged(engine::DeviceMemory& memory,
                                                                    uint64_t bytes,
                                                                    MemoryCharge charge);

// The accounts of clients, as long as they have sessions. Thread-safe.
class ClientQuotas {
 public:
  explicit ClientQuotas(const Limits& limits)
      : limits_(limits),
        memory_(std::make_shared<MemoryBudget>(limits.max_memory_bytes,
                                               limits.max_client_memory_bytes)) {}

  const std::shared_ptr<MemoryBudget>& memory() const { return memory_; }

  // Takes what a new session of this client needs: QUOTA_SESSIONS, QUOTA_EVENT_LOG. All sessions of
  // the client have the limits that its rights say now.
  // `usage` as for SessionQuota.
  absl::StatusOr<std::shared_ptr<SessionQuota>> OpenSession(
      const auth::Principal& client, std::string session,
      std::shared_ptr<UsageCounter> usage = nullptr);

 private:
  const Limits& limits_;
  const std::shared_ptr<MemoryBudget> memory_;
  Mutex mutex_;
  absl::flat_hash_map<std::string, std::weak_ptr<QuotaAccount>> clients_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace pto::daemon
