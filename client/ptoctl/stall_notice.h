#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/client.h"
#include "client/ptoctl/context.h"
#include "client/ptoctl/progress_line.h"
#include "runtime/base/error.h"

namespace pto::ptoctl {

// Tells a user who waits for a run why the run makes no progress. Prints each verdict once. Not
// thread-safe.
class StallNotice {
 public:
  static constexpr absl::Duration kPatience = absl::Seconds(5);

  StallNotice(const Context& context, Client& client, std::string run)
      : context_(context), client_(client), run_(std::move(run)) {}

  // Call it regularly with the current state of the run. Prints a notice if the run has made no
  // progress for kPatience.
  void Look(const v1::Run& run, absl::Time time, ProgressLine& progress);

  // A timeout error: `text` and, if the daemon knows it, the cause of the delay.
  Error NotInTime(const std::string& text);

 private:
  absl::StatusOr<v1::ExplainRunResponse> Ask();

  const Context& context_;
  Client& client_;
  const std::string run_;
  uint64_t ended_tasks_ = 0;
  v1::Run::State state_ = v1::Run::STATE_UNSPECIFIED;
  absl::Time next_look_ = absl::InfinitePast();
  std::string said_;
};

}  // namespace pto::ptoctl
