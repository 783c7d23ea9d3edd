#include "daemon/domain/domain_uses.h"

#include <algorithm>
#include <utility>

#include "runtime/base/status_macros.h"

namespace pto::daemon {

DomainUses::Use& DomainUses::UseOf(const std::shared_ptr<Domain>& domain) {
  const auto known = std::find_if(uses_.begin(), uses_.end(),
                                  [&](const Use& use) { return use.domain == domain; });
  if (known != uses_.end()) return *known;
  Use& use = uses_.emplace_back();
  use.domain = domain;
  return use;
}

void DomainUses::Add(const std::shared_ptr<Domain>& domain,
                     const std::shared_ptr<SessionBuffer>& part, bool begins_zero) {
  Use& use = UseOf(domain);
  use.uses_signals |= begins_zero;
  if (!begins_zero || part->signals || use.uses_all) return;
  if (!use.known_zeroed.insert(part.get()).second) return;
  zero_bytes_ += part->memory->bytes();
  use.zeroed.push_back(part);
}

void DomainUses::AddWhole(const std::shared_ptr<Domain>& domain) {
  Use& use = UseOf(domain);
  if (use.uses_all) return;
  use.uses_signals = use.uses_all = true;
  // Those that are named too count twice, which only makes another thread do it earlier.
  use.zeroed.clear();
  for (const std::shared_ptr<SessionBuffer>& part : domain->zero_parts()) {
    zero_bytes_ += part->memory->bytes();
    use.zeroed.push_back(part);
  }
}

void DomainUses::AddAccesses(RunAccesses* accesses) const {
  for (const Use& use : uses_) {
    if (use.uses_signals) accesses->push_back({use.domain->signal_queue(), {0, 1}, true, true});
    accesses->push_back({use.domain->whole_queue(), {0, 1}, use.uses_all});
  }
}

absl::Status DomainUses::CheckUsable() const {
  for (const Use& use : uses_) PTO_RETURN_IF_ERROR(use.domain->error());
  return absl::OkStatus();
}

void DomainUses::Enter(const RunTurn* user, const std::shared_ptr<Stoppable>& run) const {
  for (const Use& use : uses_) use.domain->Enter(user, run, use.uses_signals);
}

void DomainUses::BeginUse(const RunTurn* user) const {
  for (const Use& use : uses_) {
    std::vector<std::shared_ptr<SessionBuffer>> zeroed;
    for (const std::weak_ptr<SessionBuffer>& weak : use.zeroed) {
      if (std::shared_ptr<SessionBuffer> part = weak.lock()) zeroed.push_back(std::move(part));
    }
    use.domain->BeginUse(user, zeroed);
  }
}

void DomainUses::Forget(const RunTurn* user) const {
  for (const Use& use : uses_) use.domain->Forget(user);
}

DomainUses::Revoked DomainUses::Leave(const RunTurn* user, const engine::Run& run,
                                      absl::string_view run_name) const {
  Revoked revoked;
  for (const Use& use : uses_) revoked.push_back(use.domain->Leave(user, run, run_name));
  return revoked;
}

void DomainUses::Stop(const Revoked& revoked, engine::Completions& completions) {
  for (const Domain::Revoked& domain : revoked) Domain::Stop(domain, completions);
}

}  // namespace pto::daemon
