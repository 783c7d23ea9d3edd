#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "pto/v1/run.pb.h"
#include "runtime/engine/diagnosis.h"
#include "runtime/engine/engine_now.h"

namespace pto {

// Puts what is known of runs into words. Lives as long as what it speaks of; not thread-safe.
class Describer {
 public:
  Describer(const EngineNow& now, const Diagnosis& diagnosis) : now_(now), diagnosis_(diagnosis) {}

  // What is said of a run, which may be in several parts: by their places in EngineNow, at least
  // one. `idle` of each of them.
  v1::ExplainRunResponse Describe(absl::Span<const size_t> parts, absl::Span<const int64_t> idle_ns,
                                  int64_t stall_ns, size_t max_tasks) const;

 private:
  using Blocked = v1::ExplainRunResponse::BlockedTask;

  void Fill(size_t run, const Obstacle& obstacle, Blocked* out) const;
  void FillSignal(size_t run, const Obstacle& obstacle, Blocked* out) const;
  std::string CoresText(const Obstacle& obstacle) const;
  // Why nothing helps.
  std::string WhyStuck(size_t run, const Obstacle& obstacle) const;
  std::string NameOf(size_t run) const;
  // The id alone within the session of `from`.
  std::string ShortName(size_t from, size_t run) const;
  std::string TaskText(size_t from, const TaskPlace& place) const;
  std::string TaskTexts(size_t from, absl::Span<const TaskPlace> places) const;

  const EngineNow& now_;
  const Diagnosis& diagnosis_;
};

// The answer for a run that the engine does not have: it has ended, or it is open and has no task.
v1::ExplainRunResponse DescribeIdle(absl::string_view name, v1::Run::State state, uint64_t tasks,
                                    uint64_t done);

}  // namespace pto
