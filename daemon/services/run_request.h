#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/admission/admission.h"
#include "daemon/auth/principal.h"
#include "daemon/node/node.h"
#include "daemon/rpc/rhythm.h"
#include "daemon/rpc/server.h"
#include "daemon/session/session.h"
#include "pto/v1/graph.pb.h"
#include "pto/v1/run.pb.h"
#include "runtime/engine/run/completions.h"

// From the requests of RunService to what Admission starts.
namespace pto::daemon {

// Fills labels, level, priority and timeouts, which are checked against each other. `field` is
// the path of the options. A priority that the caller may not use is PERMISSION_DENIED.
absl::Status ParseRunOptions(const auth::Principal& caller, const v1::RunOptions& options,
                             absl::string_view field, RunTerms* terms);

// Refuses a run that has less time than a task of it may take: FIELD_INVALID. `field` is the path
// of the options.
absl::Status CheckTaskTimes(const RunRequest& request, absl::string_view field);

// Refuses a run with a task that cannot end in time, by far: TASK_TOO_LONG.
absl::Status CheckWork(Node& node, const RunTerms& terms, const engine::GraphImage& image);
// The same for a launch, which looks at the tasks of its graph only once.
absl::Status CheckWork(Node& node, const RunTerms& terms, RegisteredGraph& graph);

// How long a reply may be held: 0 to one hour.
absl::StatusOr<absl::Duration> ParseWait(const google::protobuf::Duration& wait,
                                         absl::string_view field);

// Starts a run of a registered graph. `target` is that of the last launch, or empty. A graph that
// has to be compiled for buffers that overlap is so until `cancelled` says otherwise. Of a run that
// ends in here, `completions` has the steps that are left: see Session::StartRun.
absl::StatusOr<std::shared_ptr<RunEntry>> Launch(Node& node, const auth::Principal& caller,
                                                 const v1::LaunchGraphRequest& request,
                                                 engine::WorkBudget::Cancelled cancelled,
                                                 LaunchTarget* target,
                                                 engine::Completions& completions);

// An answer has left: stays awake for the client's next request when it asks in quick succession
// and no run wants the CPU.
void AwaitNext(Node& node, rpc::Server& server, rpc::Rhythm& rhythm);

}  // namespace pto::daemon
