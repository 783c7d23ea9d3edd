#include "daemon/quota/memory_budget.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "runtime/base/error.h"

namespace pto::daemon {

MemoryBudget::MemoryBudget(uint64_t max_bytes, uint64_t max_client_bytes)
    : max_client_bytes_(max_client_bytes),
      all_(std::make_shared<MemoryAccount>("all clients together", "max_memory_bytes", max_bytes)) {
}

std::shared_ptr<MemoryAccount> MemoryBudget::OfClient(const std::string& client) {
  MutexLock lock(mutex_);
  absl::erase_if(clients_, [](const auto& entry) { return entry.second.expired(); });
  std::weak_ptr<MemoryAccount>& known = clients_[client];
  std::shared_ptr<MemoryAccount> account = known.lock();
  if (account == nullptr) {
    account = std::make_shared<MemoryAccount>(absl::StrCat("client ", client),
                                              "max_client_memory_bytes", max_client_bytes_, all_);
    known = account;
  }
  return account;
}

void MemoryBudget::AddHolder(const MemoryAccount* account, std::weak_ptr<MemoryHolder> holder) {
  MutexLock lock(mutex_);
  holders_.erase(std::remove_if(holders_.begin(), holders_.end(),
                                [](const Holder& one) { return one.holder.expired(); }),
                 holders_.end());
  holders_.push_back({account, std::move(holder)});
}

bool MemoryBudget::MakeRoom(const MemoryAccount& account, uint64_t bytes) {
  // What can never fit must cost nobody anything.
  if (bytes > account.limit() || bytes > all_->limit()) return false;
  std::vector<std::shared_ptr<MemoryHolder>> own, others;
  {
    MutexLock lock(mutex_);
    for (const Holder& one : holders_) {
      if (std::shared_ptr<MemoryHolder> holder = one.holder.lock()) {
        (one.account == &account ? own : others).push_back(std::move(holder));
      }
    }
  }
  uint64_t shed = 0;
  const auto enough = [&](const MemoryAccount& within,
                          const std::vector<std::shared_ptr<MemoryHolder>>& holders) {
    for (const std::shared_ptr<MemoryHolder>& holder : holders) {
      const uint64_t missing = within.Missing(bytes);
      if (missing == 0) return true;
      shed += holder->Shed(missing);
    }
    return within.Missing(bytes) == 0;
  };
  if (enough(account, own)) return true;
  // Others can only help with the limit for all.
  enough(*all_, others);
  return shed > 0 && account.Missing(bytes) == 0;
}

std::vector<std::shared_ptr<MemoryAccount>> MemoryBudget::clients() const {
  std::vector<std::shared_ptr<MemoryAccount>> accounts;
  {
    MutexLock lock(mutex_);
    for (const auto& [name, weak] : clients_) {
      if (std::shared_ptr<MemoryAccount> account = weak.lock()) accounts.push_back(account);
    }
  }
  std::sort(accounts.begin(), accounts.end(),
            [](const auto& a, const auto& b) { return a->holder() < b->holder(); });
  return accounts;
}

bool WantsMemory(const absl::Status& status, uint64_t* bytes) {
  if (status.code() != absl::StatusCode::kResourceExhausted) return false;
  const absl::optional<ErrorDetail> detail = GetErrorDetail(status);
  if (!detail.has_value() || detail->reason != reason::kMemoryBudget.name ||
      !detail->quota.has_value()) {
    return false;
  }
  *bytes = detail->quota->requested;
  return true;
}

}  // namespace pto::daemon
