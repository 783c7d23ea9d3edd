#include "daemon/services/run_service.h"

#include <set>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "daemon/admission/admission.h"
#include "daemon/graph/spec_decoder.h"
#include "daemon/graph/structure.h"
#include "daemon/names/digest.h"
#include "daemon/names/names.h"
#include "daemon/services/handler.h"
#include "daemon/services/launch_stream.h"
#include "daemon/services/packed_stream.h"
#include "daemon/services/run_request.h"
#include "daemon/services/run_wait.h"
#include "daemon/services/stream_run.h"
#include "daemon/session/session_hold.h"
#include "daemon/wire/convert.h"
#include "daemon/wire/request.h"
#include "runtime/base/error.h"
#include "runtime/base/status_macros.h"

namespace pto::daemon {
namespace {

using Async = v1::RunService::AsyncService;

constexpr absl::Duration kDefaultWait = absl::Seconds(30);
constexpr absl::string_view kAllSessions = "sessions/-";
// Runs that list many errors are large. Enough for all others, and less than any client takes.
constexpr size_t kMaxPageBytes = size_t{1} << 20;
constexpr uint32_t kDefaultExplained = 16;
constexpr uint32_t kMaxExplained = 1000;

}  // namespace

void RunService::Register(rpc::Server& server) {
  server_ = &server;
  server.AddService(&service_);
  server.LongUnary(
      &Async::RequestSubmitRun, &service_,
      AsyncHandler({node_, "pto.v1.RunService/SubmitRun"}, this, &RunService::SubmitRun));
  // Also this one: it may wait, and must not hold its session when its client has gone.
  server.LongUnary(
      &Async::RequestLaunchGraph, &service_,
      AsyncHandler({node_, "pto.v1.RunService/LaunchGraph"}, this, &RunService::LaunchGraph));
  server.LongUnary(&Async::RequestWaitRun, &service_,
                   AsyncHandler({node_, "pto.v1.RunService/WaitRun"}, this, &RunService::WaitRun));
  server.LongUnary(
      &Async::RequestRegisterGraph, &service_,
      AsyncHandler({node_, "pto.v1.RunService/RegisterGraph"}, this, &RunService::RegisterGraph));
  server.Unary(&Async::RequestGetGraph, &service_,
               Handler({node_, "pto.v1.RunService/GetGraph"}, this, &RunService::GetGraph));
  server.Unary(&Async::RequestDeleteGraph, &service_,
               Handler({node_, "pto.v1.RunService/DeleteGraph"}, this, &RunService::DeleteGraph));
  server.Unary(&Async::RequestGetRun, &service_,
               Handler({node_, "pto.v1.RunService/GetRun"}, this, &RunService::GetRun));
  server.Unary(&Async::RequestGetRunGraph, &service_,
               Handler({node_, "pto.v1.RunService/GetRunGraph"}, this, &RunService::GetRunGraph));
  server.Unary(&Async::RequestCancelRun, &service_,
               Handler({node_, "pto.v1.RunService/CancelRun"}, this, &RunService::CancelRun));
  server.Unary(&Async::RequestListRuns, &service_,
               Handler({node_, "pto.v1.RunService/ListRuns"}, this, &RunService::ListRuns));
  server.Unary(
      &Async::RequestExplainRun, &service_,
      AsyncHandler({node_, "pto.v1.RunService/ExplainRun"}, this, &RunService::ExplainRun));
  server.ClientStream(&Async::RequestSubmitPackedRun, &service_,
                      [this, gate = Gate(node_, "pto.v1.RunService/SubmitPackedRun")](
                          const grpc::ServerContext&) { return NewPackedRun(node_, gate); });
  server.ClientStream(&Async::RequestRegisterPackedGraph, &service_,
                      [this, gate = Gate(node_, "pto.v1.RunService/RegisterPackedGraph")](
                          const grpc::ServerContext&) { return NewPackedGraph(node_, gate); });
  server.ClientStream(
      &Async::RequestStreamRun, &service_,
      [this, gate = Gate(node_, "pto.v1.RunService/StreamRun")](const grpc::ServerContext&) {
        return StreamRun::Make(node_, gate, streams_);
      });
  server.BidiStream(
      &Async::RequestLaunchStream, &service_,
      [this, gate = Gate(node_, "pto.v1.RunService/LaunchStream")](const grpc::ServerContext&) {
        return LaunchStream::Make(node_, gate, *server_, streams_);
      });
}

// ---- starting runs

GraphLimits RunService::Limits() const {
  return {node_.limits().max_graph_tensors, node_.limits().max_graph_edges};
}

absl::StatusOr<std::shared_ptr<RunEntry>> RunService::Submit(
    const auth::Principal& caller, const v1::SubmitRunRequest& request,
    const engine::WorkBudget::Cancelled& cancelled) {
  const Admission admission(node_);
  PTO_RETURN_IF_ERROR(admission.CheckAccepting());
  Admission::Request submit;
  submit.caller = &caller;
  PTO_ASSIGN_OR_RETURN(submit.session, names::ParseSession(request.parent(), "parent"));
  PTO_RETURN_IF_ERROR(ParseRunOptions(caller, request.options(), "options", &submit.run));
  if (!request.run_id().empty()) {
    PTO_RETURN_IF_ERROR(names::CheckId(request.run_id(), "run_id"));
    submit.run.id = request.run_id();
    submit.run.digest = DigestOf(request);
  }
  submit.run.cancelled = cancelled;
  return admission.Start(submit, [&](Session& session, RunRequest* run) -> absl::Status {
    PTO_ASSIGN_OR_RETURN(
        DecodedGraph graph,
        DecodeGraphSpec(request.graph(), session.id(), session.target(), Limits(), cancelled));
    run->image = std::move(graph.image);
    PTO_RETURN_IF_ERROR(CheckTaskTimes(*run, "options"));
    return CheckWork(node_, *run, *run->image);
  });
}

void RunService::SubmitRun(const Gate& gate, const auth::Caller& caller,
                           rpc::UnaryCallPtr<v1::SubmitRunRequest, v1::Run> call) {
  const absl::StatusOr<absl::Duration> wait = ParseWait(call->request().wait(), "wait");
  if (!wait.ok()) {
    gate.Note(*call, caller, &call->request(), wait.status());
    return call->Finish(wait.status());
  }
  // How long a client waits is not part of what it asks for: it may ask again and wait longer.
  call->mutable_request().clear_wait();
  engine::CompileTime time(node_.clock(), node_.compile_timeout_ns());
  const absl::StatusOr<std::shared_ptr<RunEntry>> entry =
      Submit(*caller, call->request(),
             engine::WorkBudget::Cancelled([&call] { return call->gone(); }).WithTime(&time));
  gate.Note(*call, caller, &call->request(), entry.status());
  if (!entry.ok()) return call->Finish(entry.status());
  AnswerWithRun(node_, std::move(call), *entry, *wait);
}

void RunService::LaunchGraph(const Gate& gate, const auth::Caller& caller,
                             rpc::UnaryCallPtr<v1::LaunchGraphRequest, v1::Run> call) {
  const absl::StatusOr<absl::Duration> wait = ParseWait(call->request().wait(), "wait");
  if (!wait.ok()) {
    gate.Note(*call, caller, &call->request(), wait.status());
    return call->Finish(wait.status());
  }
  call->mutable_request().clear_wait();
  launches_.Asked(node_.clock().NowNanos());
  LaunchTarget target;
  engine::Completions completions;
  const absl::StatusOr<std::shared_ptr<RunEntry>> entry = Launch(
      node_, *caller, call->request(), [&call] { return call->gone(); }, &target, completions);
  // Before the answer, which refers to the last events of a run that has ended.
  completions.Drain();
  gate.Note(*call, caller, &call->request(), entry.status());
  if (!entry.ok()) return call->Finish(entry.status());
  AnswerWithRun(node_, std::move(call), *entry, *wait);
  if ((*entry)->ended()) AwaitNext(node_, *server_, launches_);
}

void RunService::RegisterGraph(const Gate& gate, const auth::Caller& caller,
                               rpc::UnaryCallPtr<v1::RegisterGraphRequest, v1::Graph> call) {
  engine::CompileTime time(node_.clock(), node_.compile_timeout_ns());
  const auto cancelled =
      engine::WorkBudget::Cancelled([&call] { return call->gone(); }).WithTime(&time);
  const absl::Status added = AddGraph(*caller, call->request(), cancelled, call->response());
  gate.Note(*call, caller, &call->request(), added);
  call->Finish(added);
}

absl::Status RunService::AddGraph(const auth::Principal& caller,
                                  const v1::RegisterGraphRequest& request,
                                  const engine::WorkBudget::Cancelled& cancelled,
                                  v1::Graph* response) {
  PTO_ASSIGN_OR_RETURN(const std::string id, names::ParseSession(request.parent(), "parent"));
  PTO_RETURN_IF_ERROR(names::CheckId(request.graph_id(), "graph_id"));
  PTO_ASSIGN_OR_RETURN(const std::shared_ptr<Session> session, node_.sessions().Use(caller, id));
  const SessionHold hold(session);
  const Digest digest = DigestOf(request);
  PTO_ASSIGN_OR_RETURN(std::shared_ptr<RegisteredGraph> graph,
                       session->FindForRegister(request.graph_id(), digest));
  if (graph == nullptr) {
    PTO_ASSIGN_OR_RETURN(
        DecodedGraph decoded,
        DecodeGraphSpec(request.graph(), id, session->target(), Limits(), cancelled));
    PTO_ASSIGN_OR_RETURN(graph,
                         session->AddGraph(request.graph_id(), digest, std::move(decoded.image)));
  }
  ToProto(*graph, response);
  return absl::OkStatus();
}

absl::Status RunService::GetGraph(const auth::Principal& caller, const v1::GetGraphRequest& request,
                                  v1::Graph* response) {
  PTO_ASSIGN_OR_RETURN(const names::Child child,
                       names::ParseChild(request.name(), "graphs", "name"));
  PTO_ASSIGN_OR_RETURN(const std::shared_ptr<Session> session,
                       node_.sessions().Use(caller, child.session, auth::Right::kLook));
  PTO_ASSIGN_OR_RETURN(const std::shared_ptr<RegisteredGraph> graph, session->FindGraph(child.id));
  ToProto(*graph, response);
  switch (request.view()) {
    case v1::GRAPH_VIEW_UNSPECIFIED:
    case v1::BASIC:
      return absl::OkStatus();
    case v1::STRUCTURE:
      return DescribeStructure(*graph->image, request, response->mutable_structure());
    default:
      return Error(reason::kFieldInvalid, absl::StrCat("view ", request.view(), " is not known"))
          .At("view")
          .With("have", request.view());
  }
}

absl::Status RunService::DeleteGraph(const auth::Principal& caller,
                                     const v1::DeleteGraphRequest& request,
                                     v1::DeleteGraphResponse*) {
  PTO_ASSIGN_OR_RETURN(const names::Child child,
                       names::ParseChild(request.name(), "graphs", "name"));
  PTO_ASSIGN_OR_RETURN(const std::shared_ptr<Session> session,
                       node_.sessions().Use(caller, child.session, auth::Right::kEnd));
  if (session->RemoveGraph(child.id) || request.allow_missing()) return absl::OkStatus();
  return session->FindGraph(child.id).status();
}

// ---- looking at runs

absl::StatusOr<std::shared_ptr<RunEntry>> RunService::FindRun(const auth::Principal& caller,
                                                              const std::string& name,
                                                              auth::Right right) {
  PTO_ASSIGN_OR_RETURN(const names::Child child, names::ParseChild(name, "runs", "name"));
  const absl::StatusOr<std::shared_ptr<Session>> session =
      node_.sessions().Use(caller, child.session, right);
  if (session.ok()) return (*session)->FindRun(child.id);
  if (std::shared_ptr<RunEntry> former =
          node_.former().FindRun(caller, child.session, child.id, right)) {
    return former;
  }
  return session.status();
}

absl::Status RunService::GetRun(const auth::Principal& caller, const v1::GetRunRequest& request,
                                v1::Run* response) {
  PTO_ASSIGN_OR_RETURN(const std::shared_ptr<RunEntry> entry,
                       FindRun(caller, request.name(), auth::Right::kLook));
  ToProto(entry->Status(), response);
  return absl::OkStatus();
}

absl::StatusOr<GraphParts> RunService::FindTasks(const auth::Principal& caller,
                                                 const RunEntry& run) {
  GraphParts parts = run.graph_parts();
  const RunRecord& record = run.record();
  if (!parts.empty() || (record.open && !run.ended())) return parts;
  if (record.graph != nullptr && !record.aliased) {
    PTO_ASSIGN_OR_RETURN(const names::Child child,
                         names::ParseChild(*record.graph, "graphs", "graph"));
    PTO_ASSIGN_OR_RETURN(const std::shared_ptr<Session> session,
                         node_.sessions().Use(caller, child.session, auth::Right::kLook));
    PTO_ASSIGN_OR_RETURN(const std::shared_ptr<RegisteredGraph> graph,
                         session->FindGraph(child.id));
    // Else it is another one of the same name.
    if (graph->create_time <= record.create_time) {
      const auto whole = std::make_shared<GraphPart>();
      whole->image = graph->image;
      return GraphParts{whole};
    }
  }
  return Error(reason::kGraphUnknown,
               absl::StrCat("the tasks of ", record.name(),
                            " are no longer known: only of the "
                            "newest runs that wrote an event for each of them, and of registered "
                            "graphs"))
      .With("run", record.name());
}

void RunService::AddMemory(const RunEntry& run, const GraphParts& parts,
                           v1::RunGraph* graph) const {
  const absl::Time begin = run.record().create_time;
  const absl::Time end =
      run.ended() ? begin + absl::Nanoseconds(run.record().total_ns) : absl::InfiniteFuture();
  std::set<uint32_t> chips;
  for (const std::shared_ptr<const GraphPart>& part : parts) {
    chips.insert(part->image->chips().begin(), part->image->chips().end());
  }
  for (const uint32_t chip : chips) {
    for (const engine::UsageHistory::Point& change :
         node_.engine().chips()[chip]->memory().history().Between(begin, end)) {
      v1::RunGraph::MemoryPoint& point = *graph->add_memory();
      point.set_chip(chip);
      point.set_time_ns(absl::ToInt64Nanoseconds(change.time - begin));
      point.set_used_bytes(change.used);
    }
  }
}

absl::Status RunService::GetRunGraph(const auth::Principal& caller,
                                     const v1::GetRunGraphRequest& request,
                                     v1::RunGraph* response) {
  PTO_ASSIGN_OR_RETURN(const std::shared_ptr<RunEntry> entry,
                       FindRun(caller, request.name(), auth::Right::kLook));
  PTO_ASSIGN_OR_RETURN(const GraphParts parts, FindTasks(caller, *entry));
  PTO_RETURN_IF_ERROR(DescribeRunGraph(parts, request, response));
  response->set_run(entry->record().name());
  if (!entry->record().open) response->clear_blocks();
  if (request.first_task() == 0) AddMemory(*entry, parts, response);
  return absl::OkStatus();
}

void RunService::WaitRun(const Gate&, const auth::Caller& caller,
                         rpc::UnaryCallPtr<v1::WaitRunRequest, v1::Run> call) {
  absl::StatusOr<absl::Duration> wait = ParseWait(call->request().timeout(), "timeout");
  if (!wait.ok()) return call->Finish(wait.status());
  if (*wait == absl::ZeroDuration()) wait = kDefaultWait;
  const absl::StatusOr<std::shared_ptr<RunEntry>> entry =
      FindRun(*caller, call->request().name(), auth::Right::kLook);
  if (!entry.ok()) return call->Finish(entry.status());
  const RunRecord& record = (*entry)->record();
  const bool own = record.owner != nullptr && *record.owner == caller->name;
  AnswerWithRun(node_, std::move(call), *entry, *wait, own);
}

absl::Status RunService::CancelRun(const auth::Principal& caller,
                                   const v1::CancelRunRequest& request, v1::Run* response) {
  PTO_RETURN_IF_ERROR(CheckReasonText(request.reason()));
  PTO_ASSIGN_OR_RETURN(const std::shared_ptr<RunEntry> entry,
                       FindRun(caller, request.name(), auth::Right::kEnd));
  entry->Stop(engine::RunState::kCancelled,
              Error(reason::kRunCancelled,
                    absl::StrCat("the run was cancelled on request",
                                 request.reason().empty() ? "" : ": ", request.reason()))
                  .With("by", "CancelRun")
                  .With("why", request.reason()));
  ToProto(entry->Status(), response);
  return absl::OkStatus();
}

void RunService::ExplainRun(const Gate& gate, const auth::Caller& caller,
                            rpc::UnaryCallPtr<v1::ExplainRunRequest, v1::ExplainRunResponse> call) {
  const absl::StatusOr<names::Child> child =
      names::ParseChild(call->request().name(), "runs", "name");
  if (!child.ok()) return call->Finish(child.status());
  uint32_t max_tasks = call->request().max_tasks();
  if (max_tasks > kMaxExplained) {
    return call->Finish(
        Error(reason::kFieldInvalid, absl::StrCat("max_tasks is at most ", kMaxExplained))
            .At("max_tasks")
            .With("have", max_tasks));
  }
  if (max_tasks == 0) max_tasks = kDefaultExplained;
  const auto shared =
      std::make_shared<decltype(call)>(std::move(call));  // a function must be copyable
  explainer_.Explain(caller, child->session, child->id, max_tasks,
                     [this, shared, gate, caller](absl::StatusOr<v1::ExplainRunResponse> response) {
                       absl::Status status = response.status();
                       if (status.ok()) {
                         *(*shared)->response() = *std::move(response);
                         SetTimestamp(node_.clock().WallTime(),
                                      (*shared)->response()->mutable_time());
                         status = gate.Charge(caller, **shared);
                       }
                       (*shared)->Finish(status);
                     });
}

absl::Status RunService::ListRuns(const auth::Principal& caller, const v1::ListRunsRequest& request,
                                  v1::ListRunsResponse* response) {
  PTO_ASSIGN_OR_RETURN(const size_t page, PageSize(request.page_size()));
  const PageScope scope = {"ListRuns", request.parent()};
  PTO_ASSIGN_OR_RETURN(const std::string token, ParsePageToken(scope, request.page_token()));
  // A token names the session and the number of the last run of the page.
  std::string token_session;
  uint64_t before = 0;
  if (!token.empty()) {
    const std::pair<std::string, std::string> parts =
        absl::StrSplit(token, absl::MaxSplits('/', 1));
    if (!absl::SimpleAtoi(parts.second, &before)) {
      return Error(reason::kPageTokenInvalid, "this is not a token of ListRuns").At("page_token");
    }
    token_session = parts.first;
  }
  std::vector<std::shared_ptr<Session>> sessions;
  std::shared_ptr<const FormerSession> former;  // of a session that is not there any more
  if (request.parent() == kAllSessions) {
    for (std::shared_ptr<Session>& session : node_.sessions().List(caller, "", size_t(-1))) {
      if (session->id() >= token_session) sessions.push_back(std::move(session));
    }
  } else {
    PTO_ASSIGN_OR_RETURN(const std::string id, names::ParseSession(request.parent(), "parent"));
    absl::StatusOr<std::shared_ptr<Session>> session =
        node_.sessions().Use(caller, id, auth::Right::kLook);
    if (session.ok()) {
      sessions.push_back(*std::move(session));
    } else if (former = node_.former().Find(caller, id); former == nullptr) {
      return session.status();
    }
  }
  std::string last;
  size_t bytes = 0;
  // Returns false when the page is full.
  const auto add = [&](const std::string& id, const std::vector<std::shared_ptr<RunEntry>>& runs) {
    for (const std::shared_ptr<RunEntry>& entry : runs) {
      if (response->runs_size() == static_cast<int>(page) || bytes >= kMaxPageBytes) {
        response->set_next_page_token(MakePageToken(scope, last));
        return false;
      }
      v1::Run* const run = response->add_runs();
      ToProto(entry->Status(), run);
      bytes += run->ByteSizeLong();
      last = absl::StrCat(id, "/", entry->number());
    }
    return true;
  };
  for (const std::shared_ptr<Session>& session : sessions) {
    const uint64_t from = session->id() == token_session ? before : 0;
    const size_t room = page - static_cast<size_t>(response->runs_size());
    if (!add(session->id(), session->ListRuns(from, room + 1, request.active_only()))) break;
  }
  if (former != nullptr && !request.active_only()) {
    std::vector<std::shared_ptr<RunEntry>> runs;
    former->List(before, page + 1, &runs);
    add(former->id(), runs);
  }
  return absl::OkStatus();
}

}  // namespace pto::daemon
