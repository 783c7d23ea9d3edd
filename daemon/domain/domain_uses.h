#pragma once

#include <memory>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "daemon/domain/domain.h"
#include "runtime/engine/run/completions.h"

namespace pto::daemon {

// The domains that a run or a segment of an open one uses, and what it must tell them. Not changed
// any more when that has it; then any thread may use it.
class DomainUses {
 public:
  // A part of the domain; `begins_zero`: see Domain::BeginsZero.
  void Add(const std::shared_ptr<Domain>& domain, const std::shared_ptr<SessionBuffer>& part,
           bool begins_zero);

  // The same for one whose whole windows kernels of the run get.
  void AddWhole(const std::shared_ptr<Domain>& domain);

  // Adds what keeps those apart that use the same signals, or all of a domain and a part of it.
  void AddAccesses(RunAccesses* accesses) const;

  // DOMAIN_REVOKED when one is.
  absl::Status CheckUsable() const;
  // As in Domain, for each.
  void Enter(const RunTurn* user, const std::shared_ptr<Stoppable>& run) const;
  void BeginUse(const RunTurn* user) const;
  // Whether BeginUse may take longer than a thread that serves clients has.
  bool begins_long() const { return zero_bytes_ > kShortZeroBytes; }
  void Forget(const RunTurn* user) const;

  // What is left to do when a run has left its domains.
  using Revoked = std::vector<Domain::Revoked>;
  Revoked Leave(const RunTurn* user, const engine::Run& run, absl::string_view run_name) const;
  static void Stop(const Revoked& revoked, engine::Completions& completions);

 private:
  // Some ten microseconds.
  static constexpr uint64_t kShortZeroBytes = uint64_t{256} << 10;

  struct Use {
    std::shared_ptr<Domain> domain;
    bool uses_signals = false;
    bool uses_all = false;
    // What is set to zero when it begins. The run holds these buffers until it has ended.
    std::vector<std::weak_ptr<SessionBuffer>> zeroed;
    absl::flat_hash_set<const SessionBuffer*> known_zeroed;
  };
  Use& UseOf(const std::shared_ptr<Domain>& domain);

  std::vector<Use> uses_;
  uint64_t zero_bytes_ = 0;
};

}  // namespace pto::daemon
