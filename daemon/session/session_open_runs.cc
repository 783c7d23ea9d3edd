// The part of a session that has to do with open runs.

#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/session/session.h"
#include "runtime/base/error.h"
#include "runtime/base/failpoint.h"
#include "runtime/base/status_macros.h"

namespace pto::daemon {

absl::StatusOr<std::shared_ptr<StreamedRun>> Session::StartOpenRun(RunTerms terms) {
  std::shared_ptr<StreamedRun> entry;
  {
    Charges charges;  // destroyed without the lock
    MutexLock lock(mutex_);
    PTO_RETURN_IF_ERROR(CheckAlive());
    // What it executes is not known yet, so no other request is the same.
    if (runs_.Find(terms.id) != nullptr || runs_.IsForgotten(terms.id) ||
        (options_.former != nullptr && options_.former->Find(terms.id) != nullptr)) {
      return Error(reason::kRunIdUsed, absl::StrCat("there is or was a run '", terms.id, "'"))
          .At("run_id")
          .With("run", terms.id);
    }
    PTO_RETURN_IF_ERROR(CheckAccepting());
    StreamedRun::Parts parts;
    parts.run.engine = options_.engine;
    parts.run.clock = options_.clock;
    parts.run.record_level = terms.record_level;
    parts.run.task_timeout_ns = terms.task_timeout_ns;
    parts.run.wait_timeout_ns = terms.wait_timeout_ns;
    parts.run.priority = terms.priority;
    parts.run.account = account_;
    parts.budget = open_tasks_;
    parts.timers = options_.timers;
    parts.timeout_ns = terms.timeout_ns;
    parts.queue_timeout_ns = terms.queue_timeout_ns;
    RunEntry::Options options = DescribeRun(terms);
    options.record.open = true;
    PTO_RETURN_IF_ERROR(ChargeRun(&options, &charges));
    entry = std::make_shared<StreamedRun>(std::move(options), std::move(parts));
    entry->Prepare();
    AddEntry(entry);
  }
  (void)PTO_FAILPOINT("run.accept");
  entry->Begin();
  return entry;
}

absl::StatusOr<std::shared_ptr<const BoundSlots>> Session::EnterSegment(
    const engine::GraphImage& image, const std::shared_ptr<SegmentTurn>& turn,
    const std::shared_ptr<Stoppable>& run) {
  const std::vector<engine::DomainUser> users = engine::FindDomainUsers(image);
  MutexLock lock(mutex_);
  PTO_RETURN_IF_ERROR(CheckAlive());
  PTO_RETURN_IF_ERROR(CheckChips(image));
  PTO_ASSIGN_OR_RETURN(std::shared_ptr<const BoundSlots> slots, Bind(image, {}, users));
  if (slots->domains != nullptr) {
    // In this order: what is revoked after the look stops the run.
    slots->domains->Enter(turn.get(), run);
    if (absl::Status usable = slots->domains->CheckUsable(); !usable.ok()) {
      slots->domains->Forget(turn.get());
      return usable;
    }
  }
  RunTurn::Enter(turn, slots->accesses);
  return slots;
}

absl::StatusOr<ChipLeases::Claim> Session::ClaimChips(const engine::GraphImage& image) const {
  if (options_.leases == nullptr) return ChipLeases::Claim();
  return options_.leases->MakeClaim(image.chips(), chip_user());
}

void Session::LeaveSegment(SegmentTurn& turn) {
  MutexLock lock(mutex_);
  if (!turn.Leave()) ++late_turns_;
}

}  // namespace pto::daemon
