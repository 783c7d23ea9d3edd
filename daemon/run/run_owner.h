#pragma once

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/chip/chip_leases.h"
#include "daemon/domain/session_buffer.h"
#include "daemon/events/event_log.h"
#include "daemon/turn/segment_turn.h"
#include "daemon/turn/stoppable.h"
#include "runtime/base/memory_account.h"
#include "runtime/graph/image.h"

namespace pto::daemon {

class RunEntry;

// What a run needs of the session that it belongs to. Thread-safe.
class RunOwner {
 public:
  virtual ~RunOwner() = default;

  virtual EventLog& log() = 0;
  // What counts what the run holds of the machine's memory; nullptr when nothing does.
  virtual const std::shared_ptr<MemoryAccount>& memory() const = 0;
  virtual absl::Time WallTime() const = 0;
  // While it is held it does not expire: see Hold.
  virtual void AddHold() = 0;
  virtual void DropHold() = 0;

  // Called by a run once each. The run has ended, which is not visible to others yet: there is room
  // for the next one.
  virtual void ReleaseRun() = 0;
  // Its end is in the log. With `leave` it also gives up its place, as by LeaveTurn.
  virtual void OnRunEnded(RunEntry& entry, bool leave) = 0;
  // Runs that are started from now on do not wait for this one. Called after the calls that waited
  // for the run were answered, so that answers keep the order of the runs.
  virtual void LeaveTurn(RunEntry& entry) = 0;
  // Called by a turn that came after the end of the run that has it.
  virtual void OnPassedLate(RunTurn& turn) = 0;

  // Finds the buffers of a segment of an open run, and gives the segment its place among the runs.
  // From then on, also while the segment waits, a domain that is revoked stops `run`.
  virtual absl::StatusOr<std::shared_ptr<const BoundSlots>> EnterSegment(
      const engine::GraphImage& image, const std::shared_ptr<SegmentTurn>& turn,
      const std::shared_ptr<Stoppable>& run) = 0;
  // The segment has ended.
  virtual void LeaveSegment(SegmentTurn& turn) = 0;

  // CHIP_LEASED when the graph needs a chip that is another session's, CHIP_UNAVAILABLE when it is
  // faulty. The last look is after the engine has accepted the run and before it begins: leases and
  // faults that come later see the run.
  virtual absl::Status CheckChips(const engine::GraphImage& image) const = 0;
  // The same for work that leases of others wait for.
  virtual absl::Status CheckHealth(const engine::GraphImage& image) const = 0;
  // For a segment that has to wait for its turn: leases of others wait for it from now on. Errors:
  // as CheckChips.
  virtual absl::StatusOr<ChipLeases::Claim> ClaimChips(const engine::GraphImage& image) const = 0;
};

}  // namespace pto::daemon
