#include "daemon/quota/quota.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "runtime/base/error.h"
#include "runtime/base/status_macros.h"

namespace pto::daemon {
namespace {

constexpr uint64_t kUnlimited = std::numeric_limits<uint64_t>::max();

struct ResourceName {
  const char* limit;  // suffix after max_session_ or max_client_
  const char* text;
  const Reason* reason;
};

constexpr ResourceName kNames[kResources] = {
    {"sessions", "sessions", &reason::kQuotaSessions},
    {"device_bytes", "bytes of device memory", &reason::kQuotaMemory},
    {"windows", "windows", &reason::kQuotaWindows},
    {"active_runs", "runs that are queued or running", &reason::kQuotaRuns},
    {"tasks", "tasks of queued or running runs", &reason::kQuotaTasks},
    {"event_log_bytes", "bytes of event logs", &reason::kQuotaEventLog},
};

QuotaAccount::Limits SessionLimits(const Limits& limits) {
  // Limits that are checked elsewhere, with their own reasons, are unlimited here.
  return {kUnlimited, limits.max_session_device_bytes, limits.max_session_windows,
          kUnlimited, limits.max_session_tasks,        kUnlimited};
}

QuotaAccount::Limits ClientLimits(const Limits& limits, const auth::Rights& rights) {
  const auto pick = [](uint64_t own, uint64_t general) { return own != 0 ? own : general; };
  return {pick(rights.max_sessions, limits.max_client_sessions),
          pick(rights.max_device_bytes, limits.max_client_device_bytes),
          pick(rights.max_windows, limits.max_client_windows),
          pick(rights.max_active_runs, limits.max_client_active_runs),
          pick(rights.max_tasks, limits.max_client_tasks),
          pick(rights.max_event_log_bytes, limits.max_client_event_log_bytes)};
}

}  // namespace

void QuotaAccount::SetLimits(const Limits& limits) {
  for (size_t i = 0; i < kResources; ++i) limits_[i].store(limits[i], std::memory_order_relaxed);
  if (awaited_.load(std::memory_order_seq_cst)) TellTaskRoom();
}

absl::Status QuotaAccount::Take(Resource resource, uint64_t amount) {
  const auto index = static_cast<size_t>(resource);
  std::atomic<uint64_t>& used = used_[index];
  const uint64_t limit = limits_[index].load(std::memory_order_relaxed);
  uint64_t before = used.load(std::memory_order_acquire);
  do {
    if (amount > limit || before > limit - amount) {
      const ResourceName& name = kNames[index];
      const std::string limit_name = absl::StrCat("max_", level_, "_", name.limit);
      return Error(*name.reason,
                   absl::StrCat(level_, " ", owner_, " may have ", limit, " ", name.text, ", has ",
                                before, " and wants ", amount, " more"))
          .With(level_, owner_)
          .With("limit", limit)
          .With("usage", before)
          .With("requested", amount)
          .Limit(limit_name, limit, before, amount);
    }
  } while (!used.compare_exchange_weak(before, before + amount, std::memory_order_acq_rel));
  return absl::OkStatus();
}

bool QuotaAccount::AwaitTaskRoom(const void* who, std::function<void()> waiter) {
  if (HasTaskRoom()) return true;
  std::function<void()> before;  // destroyed without the lock
  MutexLock lock(waiter_mutex_);
  before = std::exchange(waiters_[who], std::move(waiter));
  awaited_.store(true, std::memory_order_seq_cst);
  if (!HasTaskRoom()) return false;
  before = std::move(waiters_[who]);
  waiters_.erase(who);
  return true;
}

void QuotaAccount::ForgetTaskWaiter(const void* who) {
  if (!awaited_.load(std::memory_order_seq_cst)) return;
  std::function<void()> before;  // destroyed without the lock
  MutexLock lock(waiter_mutex_);
  const auto found = waiters_.find(who);
  if (found == waiters_.end()) return;
  before = std::move(found->second);
  waiters_.erase(found);
}

void QuotaAccount::TellTaskRoom() {
  std::map<const void*, std::function<void()>> waiters;
  {
    MutexLock lock(waiter_mutex_);
    if (!HasTaskRoom()) return;
    awaited_.store(false, std::memory_order_seq_cst);
    waiters.swap(waiters_);
  }
  for (auto& [who, waiter] : waiters) waiter();
}

SessionQuota::SessionQuota(const Limits& limits, std::string session,
                           std::shared_ptr<QuotaAccount> client,
                           std::shared_ptr<MemoryBudget> budget,
                           std::shared_ptr<UsageCounter> usage)
    : own_("session", std::move(session), SessionLimits(limits)),
      client_(std::move(client)),
      budget_(std::move(budget)),
      memory_(budget_->OfClient(client_->owner())),
      usage_(std::move(usage)) {}

absl::Status SessionQuota::Take(Resource resource, uint64_t amount) {
  PTO_RETURN_IF_ERROR(own_.Take(resource, amount));
  absl::Status taken = client_->Take(resource, amount);
  if (!taken.ok()) {
    own_.Give(resource, amount);
  } else if (resource == Resource::kDeviceBytes && usage_ != nullptr) {
    usage_->Hold(amount);
  }
  return taken;
}

void SessionQuota::Give(Resource resource, uint64_t amount) {
  if (resource == Resource::kDeviceBytes && usage_ != nullptr) usage_->Release(amount);
  own_.Give(resource, amount);
  client_->Give(resource, amount);
}

absl::StatusOr<QuotaCharge> QuotaCharge::Take(std::shared_ptr<SessionQuota> quota,
                                              Resource resource, uint64_t amount) {
  PTO_RETURN_IF_ERROR(quota->Take(resource, amount));
  QuotaCharge charge;
  charge.quota_ = std::move(quota);
  charge.resource_ = resource;
  charge.amount_ = amount;
  return charge;
}

QuotaCharge QuotaCharge::Part(uint64_t amount) {
  QuotaCharge part;
  part.quota_ = quota_;
  part.resource_ = resource_;
  part.amount_ = std::min(amount, amount_);
  amount_ -= part.amount_;
  return part;
}

absl::StatusOr<MemoryCharge> MemoryCharge::Take(const std::shared_ptr<SessionQuota>& quota,
                                                uint64_t bytes, uint64_t windows,
                                                uint64_t host_bytes) {
  MemoryCharge charge;
  if (quota == nullptr) return charge;
  PTO_ASSIGN_OR_RETURN(charge.windows_, QuotaCharge::Take(quota, Resource::kWindows, windows));
  PTO_ASSIGN_OR_RETURN(charge.bytes_, QuotaCharge::Take(quota, Resource::kDeviceBytes, bytes));
  PTO_ASSIGN_OR_RETURN(charge.host_,
                       HostCharge::Take(quota->memory(), host_bytes, "device memory"));
  return charge;
}

MemoryCharge MemoryCharge::Part(uint64_t bytes, uint64_t windows, uint64_t host_bytes) {
  MemoryCharge part;
  part.host_ = host_.Part(host_bytes);
  part.windows_ = windows_.Part(windows);
  part.bytes_ = bytes_.Part(bytes);
  return part;
}

uint64_t HostBytes(const engine::DeviceMemory& memory, uint64_t bytes) {
  // A buffer, its name, its queue and its charges.
  constexpr uint64_t kObjects = 1024;
  return memory.HostBytes(bytes) + kObjects;
}

absl::StatusOr<std::shared_ptr<engine::Allocation>> AllocateCharged(engine::DeviceMemory& memory,
                                                                    uint64_t bytes,
                                                                    MemoryCharge charge) {
  struct Charged {
    // In this order: the memory is destroyed first.
    MemoryCharge charge;
    std::shared_ptr<engine::Allocation> memory;
  };
  const auto charged = std::make_shared<Charged>();
  charged->charge = std::move(charge);
  PTO_ASSIGN_OR_RETURN(charged->memory, memory.Allocate(bytes));
  return std::shared_ptr<engine::Allocation>(charged, charged->memory.get());
}

absl::StatusOr<std::shared_ptr<SessionQuota>> ClientQuotas::OpenSession(
    const auth::Principal& client, std::string session, std::shared_ptr<UsageCounter> usage) {
  const QuotaAccount::Limits limits = ClientLimits(limits_, client.rights);
  std::shared_ptr<QuotaAccount> account;
  {
    MutexLock lock(mutex_);
    absl::erase_if(clients_, [](const auto& entry) { return entry.second.expired(); });
    std::weak_ptr<QuotaAccount>& known = clients_[client.name];
    account = known.lock();
    if (account == nullptr) {
      account = std::make_shared<QuotaAccount>("client", client.name, limits);
      known = account;
    }
  }
  // They may have changed since the session before.
  account->SetLimits(limits);
  // Charges that last as long as the session are stored with its quota.
  struct Opened {
    std::shared_ptr<QuotaAccount> account;
    uint64_t sessions = 0;
    uint64_t log_bytes = 0;
    ~Opened() {
      account->Give(Resource::kSessions, sessions);
      account->Give(Resource::kEventLogBytes, log_bytes);
    }
    std::shared_ptr<SessionQuota> quota;
  };
  const auto opened = std::make_shared<Opened>();
  opened->account = account;
  PTO_RETURN_IF_ERROR(account->Take(Resource::kSessions, 1));
  opened->sessions = 1;
  PTO_RETURN_IF_ERROR(account->Take(Resource::kEventLogBytes, limits_.event_log_bytes));
  opened->log_bytes = limits_.event_log_bytes;
  opened->quota = std::make_shared<SessionQuota>(limits_, std::move(session), account, memory_,
                                                 std::move(usage));
  return std::shared_ptr<SessionQuota>(opened, opened->quota.get());
}

}  // namespace pto::daemon
