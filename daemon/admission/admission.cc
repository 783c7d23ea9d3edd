#include "daemon/admission/admission.h"

#include "absl/strings/str_cat.h"
#include "daemon/names/names.h"
#include "runtime/base/error.h"

namespace pto::daemon {

absl::Status Admission::CheckFormer(const auth::Principal& caller, absl::string_view session,
                                    absl::string_view run, const absl::Status& missing) const {
  return node_.former().FindRun(caller, session, run, auth::Right::kUse) == nullptr
             ? missing
             : absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<RunEntry>> Admission::FindFormer(absl::string_view session,
                                                                const Request& request,
                                                                const absl::Status& missing) const {
  const std::string& id = request.run.id;
  if (id.empty()) return missing;
  if (request.open) {
    PTO_RETURN_IF_ERROR(CheckFormer(*request.caller, session, id, missing));
    return Error(reason::kRunIdUsed, absl::StrCat("a former boot had a run '", id, "'"))
        .At("run_id")
        .With("run", id);
  }
  PTO_ASSIGN_OR_RETURN(
      std::shared_ptr<RunEntry> former,
      node_.former().FindForStart(*request.caller, session, id, request.run.digest));
  if (former == nullptr) return missing;
  return former;
}

absl::Status Admission::FindTarget(const auth::Principal& caller, const std::string& graph,
                                   LaunchTarget* target) const {
  if (target->graph != nullptr && *target->graph->name == graph &&
      !target->graph->removed.load(std::memory_order_acquire) && !target->session->ended()) {
    return absl::OkStatus();
  }
  target->graph.reset();
  PTO_ASSIGN_OR_RETURN(const names::Child name, names::ParseChild(graph, "graphs", "graph"));
  PTO_ASSIGN_OR_RETURN(target->session, node_.sessions().Find(caller, name.session));
  PTO_ASSIGN_OR_RETURN(target->graph, target->session->FindGraph(name.id));
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<RunEntry>> Admission::Find(Request& request) const {
  if (request.target != nullptr) {
    const absl::Status found = FindTarget(*request.caller, *request.graph, request.target);
    if (!found.ok()) {
      if (request.run.id.empty()) return found;
      // Its graph is gone with the boot that had it.
      PTO_ASSIGN_OR_RETURN(const names::Child name,
                           names::ParseChild(*request.graph, "graphs", "graph"));
      return FindFormer(name.session, request, found);
    }
    request.target->session->Touch();
    return nullptr;
  }
  absl::StatusOr<std::shared_ptr<Session>> session =
      node_.sessions().Use(*request.caller, request.session);
  if (!session.ok()) return FindFormer(request.session, request, session.status());
  // A large graph takes long to compile.
  request.hold = SessionHold(*std::move(session));
  const RunRequest& run = request.run;
  if (request.open || run.id.empty() || run.image != nullptr) return nullptr;
  // Before the graph is compiled: a repeated request costs nothing.
  return request.hold->FindForStart(run.id, run.digest);
}

}  // namespace pto::daemon
