#include "daemon/domain/session_memory.h"

#include <utility>

#include "runtime/base/status_macros.h"

namespace pto::daemon {

SessionMemory::Kept::~Kept() {
  std::shared_ptr<MemoryView> told;
  {
    MutexLock lock(owner->mutex_);
    told = std::move(view);
    owner->all_.erase(memory.get());
  }
  if (told != nullptr) told->Hide(*memory->AsHost());
}

absl::StatusOr<std::shared_ptr<engine::Allocation>> SessionMemory::Add(
    std::shared_ptr<engine::Allocation> memory) {
  const auto kept = std::make_shared<Kept>();
  kept->owner = shared_from_this();
  kept->memory = std::move(memory);
  std::shared_ptr<engine::Allocation> result(kept, kept->memory.get());
  std::shared_ptr<MemoryView> view;
  std::shared_ptr<engine::SharingBudget> budget;
  {
    MutexLock lock(mutex_);
    all_[result.get()] = kept;
    view = view_;
    budget = budget_;
  }
  engine::HostAllocation* const host = result->AsHost();
  // Memory of a chip that processes do not see stays with the chip; tasks of own kernels that use
  // it are refused.
  if (view == nullptr || host == nullptr || !host->can_share()) return result;
  PTO_RETURN_IF_ERROR(CountFile(*kept));
  PTO_RETURN_IF_ERROR(host->ShareNew(budget));
  PTO_RETURN_IF_ERROR(ShowKept(*kept, view));
  return result;
}

void SessionMemory::ShowTo(std::shared_ptr<MemoryView> view,
                           std::shared_ptr<engine::SharingBudget> budget, TakeFile take_file) {
  std::vector<std::shared_ptr<const void>> unused;  // given back without the lock
  std::vector<std::shared_ptr<Kept>> looked_at;     // the same
  MutexLock lock(mutex_);
  view_.swap(view);
  budget_ = std::move(budget);
  take_file_ = std::move(take_file);
  if (view_ != nullptr) return;
  // What was not moved has no file.
  for (const auto& [memory, weak] : all_) {
    std::shared_ptr<Kept> kept = weak.lock();
    if (kept == nullptr) continue;
    const engine::HostAllocation* const host = kept->memory->AsHost();
    if (host == nullptr || host->shared_descriptor() < 0) unused.push_back(std::move(kept->file));
    looked_at.push_back(std::move(kept));
  }
}

absl::Status SessionMemory::CountFile(Kept& kept) {
  TakeFile take;
  {
    MutexLock lock(mutex_);
    if (kept.file == nullptr) take = take_file_;
  }
  if (take == nullptr) return absl::OkStatus();
  PTO_ASSIGN_OR_RETURN(std::shared_ptr<const void> file, take());
  MutexLock lock(mutex_);
  kept.file.swap(file);
  return absl::OkStatus();
}

absl::Status SessionMemory::PrepareMove(const std::shared_ptr<engine::Allocation>& memory) {
  std::shared_ptr<Kept> kept;
  {
    MutexLock lock(mutex_);
    const auto found = all_.find(memory.get());
    if (found != all_.end()) kept = found->second.lock();
  }
  if (kept == nullptr || kept->memory->AsHost()->shared_descriptor() >= 0) return absl::OkStatus();
  return CountFile(*kept);
}

absl::Status SessionMemory::Show(const std::shared_ptr<engine::Allocation>& memory) {
  std::shared_ptr<Kept> kept;
  std::shared_ptr<MemoryView> view;
  {
    MutexLock lock(mutex_);
    const auto found = all_.find(memory.get());
    if (found != all_.end()) kept = found->second.lock();
    view = view_;
  }
  if (kept == nullptr || view == nullptr) return absl::OkStatus();
  return ShowKept(*kept, view);
}

SessionMemory::KeptDomain::~KeptDomain() {
  std::shared_ptr<MemoryView> view;
  {
    MutexLock lock(owner->mutex_);
    owner->domains_.erase(number);
    view = owner->view_;
  }
  if (view != nullptr) view->HideDomain(number);
}

std::shared_ptr<void> SessionMemory::AddDomain(SharedDomain domain) {
  const auto kept = std::make_shared<KeptDomain>();
  kept->owner = shared_from_this();
  kept->number = domain.number;
  std::shared_ptr<MemoryView> view;
  {
    MutexLock lock(mutex_);
    domains_[domain.number] = domain;
    view = view_;
  }
  if (view != nullptr) view->ShowDomain(domain);
  return kept;
}

void SessionMemory::ShowDomains() {
  std::vector<SharedDomain> domains;
  std::shared_ptr<MemoryView> view;
  {
    MutexLock lock(mutex_);
    for (const auto& [number, domain] : domains_) domains.push_back(domain);
    view = view_;
  }
  if (view == nullptr) return;
  for (const SharedDomain& domain : domains) view->ShowDomain(domain);
}

absl::Status SessionMemory::ShowKept(Kept& kept, const std::shared_ptr<MemoryView>& view) {
  {
    MutexLock lock(mutex_);
    kept.view = view;
  }
  return view->Show(std::shared_ptr<engine::HostAllocation>(kept.memory, kept.memory->AsHost()));
}

}  // namespace pto::daemon
