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

// For who waits for a run: says what holds it up when nothing has happened in it for a while, once
// for each answer. For one thread.
class StallNotice {
 public:
  static constexpr absl::Duration kPatience = absl::Seconds(5);

  StallNotice(const Context& context, Client& client, std::string run)
      : context_(context), client_(client), run_(std::move(run)) {}

  // This is how the run is at `time`.
  void Look(const v1::Run& run, absl::Time time, ProgressLine& progress);

  // The run has not ended in time: `text`, and what holds it up, if the daemon knows.
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
