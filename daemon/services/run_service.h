#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/explain/explainer.h"
#include "daemon/graph/spec_decoder.h"
#include "daemon/node/node.h"
#include "daemon/rpc/rhythm.h"
#include "daemon/rpc/server.h"
#include "daemon/services/gate.h"
#include "daemon/services/stop_list.h"
#include "pto/v1/run.grpc.pb.h"

namespace pto::daemon {

// Serves pto.v1.RunService.
class RunService {
 public:
  // Both outlive it.
  RunService(Node& node, Explainer& explainer) : node_(node), explainer_(explainer) {}

  void Register(rpc::Server& server);

  // Ends all streams: of launches once their runs are done, of open runs with them. For a daemon
  // that stops.
  void StopStreams() { streams_.StopAll(); }

 private:
  void SubmitRun(const Gate& gate, const auth::Caller& caller,
                 rpc::UnaryCallPtr<v1::SubmitRunRequest, v1::Run> call);
  void LaunchGraph(const Gate& gate, const auth::Caller& caller,
                   rpc::UnaryCallPtr<v1::LaunchGraphRequest, v1::Run> call);
  void WaitRun(const Gate& gate, const auth::Caller& caller,
               rpc::UnaryCallPtr<v1::WaitRunRequest, v1::Run> call);
  void RegisterGraph(const Gate& gate, const auth::Caller& caller,
                     rpc::UnaryCallPtr<v1::RegisterGraphRequest, v1::Graph> call);
  absl::Status GetGraph(const auth::Principal& caller, const v1::GetGraphRequest& request,
                        v1::Graph* response);
  absl::Status DeleteGraph(const auth::Principal& caller, const v1::DeleteGraphRequest& request,
                           v1::DeleteGraphResponse* response);
  absl::Status GetRun(const auth::Principal& caller, const v1::GetRunRequest& request,
                      v1::Run* response);
  absl::Status GetRunGraph(const auth::Principal& caller, const v1::GetRunGraphRequest& request,
                           v1::RunGraph* response);
  absl::Status CancelRun(const auth::Principal& caller, const v1::CancelRunRequest& request,
                         v1::Run* response);
  void ExplainRun(const Gate& gate, const auth::Caller& caller,
                  rpc::UnaryCallPtr<v1::ExplainRunRequest, v1::ExplainRunResponse> call);
  absl::Status ListRuns(const auth::Principal& caller, const v1::ListRunsRequest& request,
                        v1::ListRunsResponse* response);

  GraphLimits Limits() const;
  // Each compiles a graph, unless it is known, until `cancelled` says otherwise.
  absl::StatusOr<std::shared_ptr<RunEntry>> Submit(const auth::Principal& caller,
                                                   const v1::SubmitRunRequest& request,
                                                   const engine::WorkBudget::Cancelled& cancelled);
  absl::Status AddGraph(const auth::Principal& caller, const v1::RegisterGraphRequest& request,
                        const engine::WorkBudget::Cancelled& cancelled, v1::Graph* response);
  absl::StatusOr<std::shared_ptr<RunEntry>> FindRun(const auth::Principal& caller,
                                                    const std::string& name, auth::Right right);
  // GRAPH_UNKNOWN when they are no longer known.
  absl::StatusOr<GraphParts> FindTasks(const auth::Principal& caller, const RunEntry& run);
  // How much memory was in use on the chips while the run was there.
  void AddMemory(const RunEntry& run, const GraphParts& parts, v1::RunGraph* graph) const;

  Node& node_;
  Explainer& explainer_;
  rpc::Server* server_ = nullptr;
  StopList streams_;
  rpc::Rhythm launches_;  // of unary ones
  v1::RunService::AsyncService service_;
};

}  // namespace pto::daemon
