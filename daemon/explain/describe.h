#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "daemon/auth/principal.h"
#include "daemon/run/run_entry.h"
#include "pto/v1/run.pb.h"
#include "runtime/engine/snapshot/diagnosis.h"
#include "runtime/engine/snapshot/engine_now.h"

namespace pto::daemon {

// Describes the state of runs in words. The described objects must outlive it. Not thread-safe.
class Describer {
 public:
  // `viewer` reads the description: runs that the viewer may not look at have no names and no tasks
  // in it. nullptr: the owner of the run that is described.
  Describer(const engine::EngineNow& now, const engine::Diagnosis& diagnosis,
            const auth::Principal* viewer)
      : now_(now), diagnosis_(diagnosis), viewer_(viewer) {}

  // Describes a run, which may consist of several parts: `parts` has their indices in EngineNow, at
  // least one. `idle_ns` has the idle time of each part.
  v1::ExplainRunResponse Describe(absl::Span<const size_t> parts, absl::Span<const int64_t> idle_ns,
                                  int64_t stall_ns, size_t max_tasks) const;

 private:
  using Blocked = v1::ExplainRunResponse::BlockedTask;

  void Fill(size_t run, const engine::Obstacle& obstacle, Blocked* out) const;
  void FillSignal(size_t run, const engine::Obstacle& obstacle, Blocked* out) const;
  // For an open run with tasks that have arrived and wait for their turn.
  void FillNextTurn(size_t run, Blocked* out) const;
  std::string RunTexts(size_t from, absl::Span<const size_t> runs) const;
  std::string CoresText(size_t run, const engine::Obstacle& obstacle) const;
  // What keeps a task from notifying.
  std::string HeldText(size_t run, const engine::HeldSender& held) const;
  // Why nothing can help.
  std::string WhyStuck(size_t run, const engine::Obstacle& obstacle) const;
  std::string NameOf(size_t run) const;
  // Whether who reads the description of `from` may know of the other run.
  bool Visible(size_t from, size_t run) const;
  // Only the id, if the run belongs to the session of `from`.
  std::string ShortName(size_t from, size_t run) const;
  std::string TaskText(size_t from, const engine::TaskPlace& place) const;
  std::string TaskTexts(size_t from, absl::Span<const engine::TaskPlace> places) const;

  const engine::EngineNow& now_;
  const engine::Diagnosis& diagnosis_;
  const auth::Principal* const viewer_;
};

// The answer for a run that the engine does not have: it has ended, or it is open and none of its
// tasks has begun; then `before` names the runs that its arrived tasks wait for, if any.
v1::ExplainRunResponse DescribeIdle(const RunEntry& run, absl::Span<const std::string> before);

}  // namespace pto::daemon
