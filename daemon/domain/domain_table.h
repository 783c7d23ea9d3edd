#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "daemon/domain/domain.h"
#include "daemon/domain/domain_spec.h"
#include "runtime/base/mutex.h"
#include "runtime/engine/engine.h"

namespace pto::daemon {

// The domains of one session. Thread-safe; it takes no lock but its own and then a domain's.
class DomainTable {
 public:
  static constexpr size_t kMaxDomains = 1024;

  // `session` is the full name. A window has at most `max_window_bytes`.
  DomainTable(std::string session, uint64_t max_window_bytes, engine::Engine& engine,
              std::shared_ptr<SessionQuota> quota, std::shared_ptr<SessionMemory> memory = nullptr)
      : session_(std::move(session)),
        max_window_bytes_(max_window_bytes),
        engine_(engine),
        quota_(std::move(quota)),
        memory_(std::move(memory)) {}

  // The domain that exists when it has the same content, ID_CONFLICT when it has another;
  // DOMAIN_LIMIT, CHIP_MEMORY_EXHAUSTED, QUOTA_MEMORY, QUOTA_WINDOWS, MEMORY_BUDGET, and what
  // PlanWindow refuses.
  absl::StatusOr<std::shared_ptr<Domain>> Create(const std::string& id, DomainSpec spec);
  // DOMAIN_UNKNOWN.
  absl::StatusOr<std::shared_ptr<Domain>> Find(absl::string_view id) const;
  // In order of id, after `after`.
  std::vector<std::shared_ptr<Domain>> List(absl::string_view after, size_t limit) const;
  // Returns the domain that is no longer the session's, or nullptr when there is none.
  std::shared_ptr<Domain> Remove(absl::string_view id);
  // The session has ended: there are no domains any more.
  void Close();

  uint64_t device_bytes() const;

 private:
  absl::StatusOr<std::shared_ptr<Domain>> TryCreate(const std::string& id, DomainSpec spec,
                                                    const WindowLayout& layout);

  const std::string session_;
  const uint64_t max_window_bytes_;
  engine::Engine& engine_;
  const std::shared_ptr<SessionQuota> quota_;
  const std::shared_ptr<SessionMemory> memory_;  // nullptr: nobody else is shown the windows

  mutable Mutex mutex_;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  std::map<std::string, std::shared_ptr<Domain>, std::less<>> domains_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace pto::daemon
