#include "daemon/domain/domain_uses.h"

#include <algorithm>

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

void DomainUses::Add(const std::shared_ptr<Domain>& domain, bool uses_signals) {
  Use& use = UseOf(domain);
  if (uses_signals && !use.uses_signals) zero_bytes_ += domain->zero_bytes();
  use.uses_signals |= uses_signals;
}

void DomainUses::AddWhole(const std::shared_ptr<Domain>& domain) {
  Add(domain, true);
  UseOf(domain).uses_all = true;
}

void DomainUses::AddAccesses(RunAccesses* accesses) const {
  for (const Use& use : uses_) {
    if (use.uses_signals) accesses->push_back({use.domain->signal_queue(), {0, 1}, true, true});
    if (!use.uses_all) continue;
    for (const std::shared_ptr<SessionBuffer>& part : use.domain->parts()) {
      if (!part->signals) accesses->push_back({part->queue, {0, part->memory->bytes()}, true});
    }
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
  for (const Use& use : uses_) use.domain->BeginUse(user);
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
