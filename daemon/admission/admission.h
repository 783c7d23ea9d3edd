#pragma once

#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "daemon/auth/principal.h"
#include "daemon/node/node.h"
#include "daemon/run/registered_graph.h"
#include "daemon/run/run_entry.h"
#include "daemon/run/streamed_run.h"
#include "daemon/session/session.h"
#include "daemon/session/session_hold.h"
#include "runtime/base/status_macros.h"
#include "runtime/engine/run/completions.h"

namespace pto::daemon {

// The session and graph of a launch. A stream of launches keeps it, to look them up only once.
struct LaunchTarget {
  std::shared_ptr<Session> session;
  std::shared_ptr<RegisteredGraph> graph;
};

// Lets runs in: every way to start a run goes through Start, which checks in this order
//
//   1. that the node accepts runs: NODE_DRAINING
//   2. the session, and of a launch the graph: SESSION_UNKNOWN, SESSION_ENDED, GRAPH_UNKNOWN,
//      PERMISSION_DENIED. When it is not there, the run that the same request started in a former
//      boot is the answer. A stream of launches always has the same caller, so a session that it
//      found before stays its own
//   3. the id and the digest, of a graph that is still to be compiled: the run that the same
//      request started is the answer; ID_CONFLICT, RUN_ID_USED
//   4. the rest of the request, which the caller reads: it compiles the graph or binds the launch
//   5. with the session's lock: that the session has not ended; id and digest, as in 3; that the
//      node still accepts runs, since a drain may have begun; RUN_LIMIT; buffers and domains;
//      leases and health of chips; quotas of runs and tasks; the journal: JOURNAL_UNWRITABLE
//
// and then has the engine accept the run. An open run has no graph and no digest, so its id must be
// new: RUN_ID_USED. As long as one of these fails, nothing is left behind.
//
// Only refers to the node, which outlives it; as cheap to make as to keep. Thread-safe.
class Admission {
 public:
  // Of one run. For a single Start.
  struct Request {
    // Who asks; outlives the request.
    const auth::Principal* caller = nullptr;
    // The session's id; of a launch that is in `graph`.
    std::string session;
    // With an id also the digest, which needs no image: Start may be without one. Of an open run
    // only the terms count.
    RunRequest run;
    bool open = false;

    // A launch: the graph's name, and what the launch before has found, or nothing.
    const std::string* graph = nullptr;
    LaunchTarget* target = nullptr;

    // ---- set by Start, if it has found the session
    // Not of a launch, whose `target` has the session.
    SessionHold hold;
    // The run, if `open`.
    std::shared_ptr<StreamedRun> opened;
  };

  explicit Admission(Node& node) : node_(node) {}

  // Step 1 alone: for a service that has much to read before it can call Start.
  absl::Status CheckAccepting() const { return node_.CheckAccepting(); }

  // For a service that has a request's header and not yet its digest: OK when step 2 may find a run
  // of a former boot, else `missing`.
  absl::Status CheckFormer(const auth::Principal& caller, absl::string_view session,
                           absl::string_view run, const absl::Status& missing) const;

  // Starts a run, or returns the one that the same request started before. `complete(session, run)`
  // is step 4: it fills what `run` lacks and returns a status. `completions` is for a run that ends
  // in here: see Session::StartRun.
  template <typename Complete>
  absl::StatusOr<std::shared_ptr<RunEntry>> Start(Request& request, Complete complete,
                                                  engine::Completions& completions) const {
    PTO_RETURN_IF_ERROR(CheckAccepting());
    PTO_ASSIGN_OR_RETURN(std::shared_ptr<RunEntry> before, Find(request));
    if (before != nullptr) return before;
    Session& session =
        request.target != nullptr ? *request.target->session : *request.hold.session();
    PTO_RETURN_IF_ERROR(complete(session, &request.run));
    if (!request.open) return session.StartRun(std::move(request.run), completions);
    PTO_ASSIGN_OR_RETURN(request.opened, session.StartOpenRun(std::move(request.run)));
    return request.opened;
  }
  // The same, and a run that ends in here has done all steps.
  template <typename Complete>
  absl::StatusOr<std::shared_ptr<RunEntry>> Start(Request& request, Complete complete) const {
    engine::Completions completions;
    return Start(request, std::move(complete), completions);
  }
  // The same of a request that is complete.
  absl::StatusOr<std::shared_ptr<RunEntry>> Start(Request& request) const {
    return Start(request, [](Session&, RunRequest*) { return absl::OkStatus(); });
  }

 private:
  // Steps 2 and 3: finds the session, or returns the run that the same request started before.
  absl::StatusOr<std::shared_ptr<RunEntry>> Find(Request& request) const;
  // The run that the same request started in a former boot, whose session is not there any more;
  // else `missing`.
  absl::StatusOr<std::shared_ptr<RunEntry>> FindFormer(absl::string_view session,
                                                       const Request& request,
                                                       const absl::Status& missing) const;
  absl::Status FindTarget(const auth::Principal& caller, const std::string& graph,
                          LaunchTarget* target) const;

  Node& node_;
};

}  // namespace pto::daemon
