#include "daemon/domain/domain_table.h"

#include "absl/strings/str_cat.h"
#include "runtime/base/error.h"
#include "runtime/base/status_macros.h"

namespace pto::daemon {

absl::StatusOr<std::shared_ptr<Domain>> DomainTable::Create(const std::string& id,
                                                            DomainSpec spec) {
  PTO_ASSIGN_OR_RETURN(const WindowLayout layout, PlanWindow(spec, max_window_bytes_));
  spec.window_bytes = layout.bytes;
  const auto create = [&] { return TryCreate(id, spec, layout); };
  return quota_ == nullptr ? create() : quota_->WithRoom(create);
}

absl::StatusOr<std::shared_ptr<Domain>> DomainTable::TryCreate(const std::string& id,
                                                               DomainSpec spec,
                                                               const WindowLayout& layout) {
  MutexLock lock(mutex_);
  if (closed_) {
    return Error(reason::kSessionEnded, absl::StrCat("session ", session_, " has ended"))
        .With("session", session_);
  }
  const auto found = domains_.find(id);
  if (found != domains_.end()) {
    const DomainSpec& have = found->second->spec();
    if (have == spec) return found->second;
    return Error(reason::kIdConflict,
                 absl::StrCat("domain '", id, "' exists with other contents: ", have.chips.size(),
                              " chips, ", have.buffers.size(), " buffers, ", have.signal_count,
                              " signals, windows of ", have.window_bytes, " bytes"))
        .At("domain_id")
        .With("domain", id);
  }
  if (domains_.size() >= kMaxDomains) {
    return Error(reason::kDomainLimit,
                 absl::StrCat("a session has at most ", kMaxDomains, " domains"))
        .Limit("max_session_domains", kMaxDomains, domains_.size(), 1);
  }
  PTO_ASSIGN_OR_RETURN(std::shared_ptr<Domain> domain,
                       Domain::Create(absl::StrCat(session_, "/domains/", id), std::move(spec),
                                      layout, engine_, quota_, memory_.get()));
  domains_.emplace(id, domain);
  return domain;
}

absl::StatusOr<std::shared_ptr<Domain>> DomainTable::Find(absl::string_view id) const {
  MutexLock lock(mutex_);
  const auto found = domains_.find(std::string(id));
  if (found != domains_.end()) return found->second;
  return Error(reason::kDomainUnknown, absl::StrCat("there is no domain '", id, "' in ", session_))
      .With("domain", id)
      .With("session", session_);
}

std::vector<std::shared_ptr<Domain>> DomainTable::List(absl::string_view after,
                                                       size_t limit) const {
  MutexLock lock(mutex_);
  std::vector<std::shared_ptr<Domain>> result;
  for (auto it = domains_.upper_bound(std::string(after));
       it != domains_.end() && result.size() < limit; ++it) {
    result.push_back(it->second);
  }
  return result;
}

std::shared_ptr<Domain> DomainTable::Remove(absl::string_view id) {
  std::shared_ptr<Domain> removed;
  {
    MutexLock lock(mutex_);
    const auto found = domains_.find(std::string(id));
    if (found == domains_.end()) return nullptr;
    removed = std::move(found->second);
    domains_.erase(found);
  }
  removed->Close();
  return removed;
}

void DomainTable::Close() {
  std::map<std::string, std::shared_ptr<Domain>, std::less<>> domains;
  {
    MutexLock lock(mutex_);
    closed_ = true;
    domains.swap(domains_);
  }
  for (const auto& [id, domain] : domains) domain->Close();
}

uint64_t DomainTable::device_bytes() const {
  MutexLock lock(mutex_);
  uint64_t bytes = 0;
  for (const auto& [id, domain] : domains_) bytes += domain->device_bytes();
  return bytes;
}

}  // namespace pto::daemon
