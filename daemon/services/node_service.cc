#include "daemon/services/node_service.h"

#include <unistd.h>

#include <algorithm>
#include <memory>
#include <set>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "daemon/domain/domain_table.h"
#include "daemon/names/names.h"
#include "daemon/services/handler.h"
#include "daemon/services/usage_request.h"
#include "daemon/wire/request.h"
#include "proto/status/status_proto.h"
#include "runtime/base/error.h"
#include "runtime/base/log.h"
#include "runtime/base/status_macros.h"
#include "runtime/graph/work_budget.h"

namespace pto::daemon {
namespace {

using Async = v1::NodeService::AsyncService;

constexpr PageScope kScope = {"ListChips", ""};

v1::Chip::State StateOf(ChipHealth::State state, bool draining) {
  switch (state) {
    case ChipHealth::State::kFaulted:
      return v1::Chip::FAULTED;
    case ChipHealth::State::kResetting:
      return v1::Chip::RESETTING;
    case ChipHealth::State::kActive:
      break;
  }
  return draining ? v1::Chip::DRAINING : v1::Chip::ACTIVE;
}

}  // namespace

void NodeService::Register(rpc::Server& server) {
  server.AddService(&service_);
  server.Unary(&Async::RequestGetNode, &service_,
               Handler({node_, "pto.v1.NodeService/GetNode"}, this, &NodeService::GetNode));
  server.Unary(&Async::RequestGetConfig, &service_,
               Handler({node_, "pto.v1.NodeService/GetConfig"}, this, &NodeService::GetConfig));
  server.Unary(&Async::RequestListChips, &service_,
               Handler({node_, "pto.v1.NodeService/ListChips"}, this, &NodeService::ListChips));
  server.Unary(&Async::RequestGetChip, &service_,
               Handler({node_, "pto.v1.NodeService/GetChip"}, this, &NodeService::GetChip));
  server.Unary(&Async::RequestDrainNode, &service_,
               Handler({node_, "pto.v1.NodeService/DrainNode"}, this, &NodeService::DrainNode));
  server.Unary(&Async::RequestResetChip, &service_,
               Handler({node_, "pto.v1.NodeService/ResetChip"}, this, &NodeService::ResetChip));
  server.Unary(
      &Async::RequestListUsage, &service_,
      AsyncHandler({node_, "pto.v1.NodeService/ListUsage"}, this, &NodeService::ListUsage));
}

absl::Status NodeService::GetNode(const auth::Principal& caller, const v1::GetNodeRequest&,
                                  v1::Node* response) {
  response->set_version(version_);
  response->set_revision(revision_);
  response->set_boot_id(node_.boot_id());
  response->set_api_min(1);
  response->set_api_max(1);
  std::set<std::string> backends;
  for (const std::shared_ptr<engine::Chip>& chip : node_.engine().chips()) {
    backends.insert(chip->spec().backend);
  }
  for (const std::string& backend : backends) response->add_capabilities(backend);
  response->add_capabilities("launch-stream");
  response->add_capabilities("packed-graphs");
  response->add_capabilities("gangs");
  response->add_capabilities("signals");
  response->add_capabilities("predicates");
  response->add_capabilities("open-runs");
  response->add_capabilities("domains");
  if (!broker_socket_.empty()) response->add_capabilities("broker");
  response->add_capabilities("chip-leases");
  if (node_.has_journal()) response->add_capabilities("journal");
  response->add_capabilities("explain");
  if (node_.kernel_hosts().CheckAvailable().ok()) {
    response->add_capabilities("kernels");
    for (const SandboxPart& part : sandbox_) {
      if (part.provided) response->add_capabilities("kernel-sandbox-" + part.name);
    }
  }
  const Limits& limits = node_.limits();
  v1::Limits* out = response->mutable_limits();
  out->set_max_graph_tasks(limits.max_graph_tasks);
  out->set_max_graph_tensors(limits.max_graph_tensors);
  out->set_max_graph_edges(limits.max_graph_edges);
  out->set_max_graph_dependencies(node_.target().max_dependencies);
  out->set_max_argument_comparisons(engine::WorkBudget::kPerArgument);
  out->set_max_block_tasks(limits.max_block_tasks);
  out->set_max_chunk_bytes(limits.max_chunk_bytes);
  out->set_max_buffer_bytes(limits.max_buffer_bytes);
  out->set_max_session_buffers(limits.max_session_buffers);
  out->set_max_session_active_runs(limits.max_session_active_runs);
  out->set_max_session_finished_runs(limits.max_session_finished_runs);
  out->set_max_session_live_tasks(limits.max_session_live_tasks);
  out->set_max_session_graphs(limits.max_session_graphs);
  out->set_max_session_domains(DomainTable::kMaxDomains);
  out->set_max_sessions(limits.max_sessions);
  out->set_event_log_bytes(limits.event_log_bytes);
  SetDuration(node_.session_times().max_ttl, out->mutable_max_session_ttl());
  out->set_max_tensor_dims(PTO_MAX_DIMS);
  out->set_max_task_args(PTO_MAX_ARGS);
  out->set_max_task_scalars(PTO_MAX_SCALARS);
  out->set_max_message_bytes(limits.max_message_bytes);
  out->set_max_session_device_bytes(limits.max_session_device_bytes);
  out->set_max_session_windows(limits.max_session_windows);
  out->set_max_session_tasks(limits.max_session_tasks);
  out->set_max_client_sessions(limits.max_client_sessions);
  out->set_max_client_device_bytes(limits.max_client_device_bytes);
  out->set_max_client_windows(limits.max_client_windows);
  out->set_max_client_active_runs(limits.max_client_active_runs);
  out->set_max_client_tasks(limits.max_client_tasks);
  out->set_max_client_event_log_bytes(limits.max_client_event_log_bytes);
  out->set_max_memory_bytes(limits.max_memory_bytes);
  out->set_max_client_memory_bytes(limits.max_client_memory_bytes);
  out->set_max_kernel_bytes(limits.max_kernel_bytes);
  out->set_max_client_kernel_bytes(limits.max_client_kernel_bytes);
  response->set_memory_used_bytes(node_.sessions().memory().all()->used());
  response->set_chip_count(static_cast<uint32_t>(node_.engine().chips().size()));
  response->set_executor_count(node_.engine().executors());
  const engine::Engine::ThreadUse threads = node_.engine().thread_use();
  response->set_spare_thread_count(threads.spares);
  response->set_held_thread_count(threads.held);
  response->set_threads_stuck(threads.stuck);
  SetTimestamp(node_.start_time(), response->mutable_start_time());
  response->set_draining(node_.draining());
  response->set_active_run_count(node_.CountActiveRuns());
  response->set_session_count(node_.sessions().size());
  response->set_pid(getpid());
  response->set_broker_socket(broker_socket_);
  response->set_principal(caller.name);
  if (caller.rights.user) response->add_roles("user");
  if (caller.rights.reader) response->add_roles("reader");
  if (caller.rights.operates) response->add_roles("operator");
  return absl::OkStatus();
}

absl::Status NodeService::GetConfig(const auth::Principal&, const v1::GetConfigRequest&,
                                    v1::Config* response) {
  MutexLock lock(config_mutex_);
  *response = config_;
  return absl::OkStatus();
}

void NodeService::FillChip(const auth::Principal& caller, uint32_t index, v1::Chip* chip) const {
  const engine::Chip& ours = *node_.engine().chips()[index];
  const ChipHealth::View health = node_.health().Look(index);
  const engine::Engine::ChipUse use = node_.engine().chip_use(index);
  chip->set_name(names::Chip(index));
  chip->set_index(index);
  chip->set_state(StateOf(health.state, node_.draining()));
  chip->set_backend(ours.spec().backend);
  if (!health.fault.ok()) *chip->mutable_fault() = StatusToProto(health.fault);
  if (!health.last_fault.ok()) *chip->mutable_last_fault() = StatusToProto(health.last_fault);
  chip->set_fault_count(health.faults);
  SetTimestamp(health.since, chip->mutable_health_time());
  if (health.last_progress != absl::InfinitePast()) {
    SetTimestamp(health.last_progress, chip->mutable_last_progress_time());
  }
  chip->set_clusters(ours.spec().clusters);
  chip->set_aic_cores(ours.spec().clusters);
  chip->set_aiv_cores(2 * ours.spec().clusters);
  chip->set_busy_cores(use.busy_cores);
  chip->set_memory_total_bytes(ours.memory().total_bytes());
  chip->set_memory_used_bytes(ours.memory().used_bytes());
  chip->set_ready_tasks(use.ready_tasks);
  chip->set_completed_tasks(use.ended_tasks);
  const ChipLeases::Holder holder = node_.leases().HolderOf(index);
  chip->set_leased(!holder.session.empty());
  if (!holder.session.empty() && auth::May(caller, holder.owner, auth::Right::kLook)) {
    chip->set_lease(names::Session(holder.session));
  }
}

absl::Status NodeService::ListChips(const auth::Principal& caller,
                                    const v1::ListChipsRequest& request,
                                    v1::ListChipsResponse* response) {
  PTO_ASSIGN_OR_RETURN(const size_t page, PageSize(request.page_size()));
  PTO_ASSIGN_OR_RETURN(const std::string after, ParsePageToken(kScope, request.page_token()));
  uint32_t first = 0;
  if (!after.empty() && !absl::SimpleAtoi(after, &first)) {
    return Error(reason::kPageTokenInvalid, "this is not a token of ListChips").At("page_token");
  }
  const auto count = static_cast<uint32_t>(node_.engine().chips().size());
  const auto end = static_cast<uint32_t>(std::min<uint64_t>(count, uint64_t{first} + page));
  for (uint32_t i = first; i < end; ++i) FillChip(caller, i, response->add_chips());
  if (end < count) response->set_next_page_token(MakePageToken(kScope, absl::StrCat(end)));
  return absl::OkStatus();
}

absl::StatusOr<uint32_t> NodeService::ParseChip(const std::string& name) const {
  return names::ParseChip(name, "name", node_.engine().chips().size());
}

absl::Status NodeService::GetChip(const auth::Principal& caller, const v1::GetChipRequest& request,
                                  v1::Chip* response) {
  PTO_ASSIGN_OR_RETURN(const uint32_t index, ParseChip(request.name()));
  FillChip(caller, index, response);
  return absl::OkStatus();
}

absl::Status NodeService::DrainNode(const auth::Principal&, const v1::DrainNodeRequest& request,
                                    v1::DrainNodeResponse* response) {
  PTO_RETURN_IF_ERROR(CheckReasonText(request.reason()));
  PTO_ASSIGN_OR_RETURN(
      const absl::Duration grace,
      ParseDuration(request.grace(), "grace", absl::ZeroDuration(), absl::Hours(24)));
  const Node::Drain drain = node_.BeginDrain(request.reason(), grace);
  response->set_active_run_count(drain.active_runs);
  SetTimestamp(drain.cancel_time, response->mutable_cancel_time());
  return absl::OkStatus();
}

absl::Status NodeService::ResetChip(const auth::Principal& caller,
                                    const v1::ResetChipRequest& request, v1::Chip* response) {
  PTO_ASSIGN_OR_RETURN(const uint32_t index, ParseChip(request.name()));
  const auto uses_chip = [index](const engine::Run& run) { return Node::UsesChip(run, index); };
  // If a thread is stuck in its queue, this call would get stuck, too.
  if (const ChipHealth::View health = node_.health().Look(index);
      health.sign.silent_ns > 0 && !health.fault.ok()) {
    return health.fault;
  }
  if (!request.force()) {
    const uint64_t runs = node_.engine().CountIf(uses_chip);
    if (runs > 0) {
      return Error(reason::kChipBusy, absl::StrCat(runs, " runs use ", request.name()))
          .With("chip", request.name())
          .With("runs", runs);
    }
  }
  PTO_LOG(kWarning, "chip reset", {{"chip", request.name()}, {"force", request.force()}});
  node_.health().Reset(index, [&] {
    node_.engine().StopIf(uses_chip, engine::RunState::kFailed,
                          Error(reason::kChipReset, absl::StrCat(request.name(), " was reset"))
                              .With("chip", request.name()));
    const absl::Status recovered = node_.engine().chips()[index]->Recover();
    if (!recovered.ok()) {
      PTO_LOG(kError, "a chip cannot be used after a reset",
              {{"chip", request.name()}, {"error", std::string(recovered.message())}});
    }
  });
  FillChip(caller, index, response);
  return absl::OkStatus();
}

void NodeService::ListUsage(const Gate& gate, const auth::Caller& caller,
                            rpc::UnaryCallPtr<v1::ListUsageRequest, v1::ListUsageResponse> call) {
  absl::StatusOr<UsageRequest> request =
      UsageRequest::Parse(*caller, call->request(), node_.clock().WallTime());
  if (!request.ok()) return call->Finish(request.status());
  const auto shared =
      std::make_shared<decltype(call)>(std::move(call));  // a function must be copyable
  const UsageMeter& meter = node_.usage();
  node_.usage().Find(request->query(),
                     [request = *request, shared, &meter, gate, caller](auto usage) {
                       (*shared)->response()->set_recording_fails(meter.failing());
                       absl::Status status = usage.status();
                       if (status.ok()) {
                         request.Answer(*std::move(usage), (*shared)->response());
                         status = gate.Charge(caller, **shared);
                       }
                       (*shared)->Finish(status);
                     });
}

}  // namespace pto::daemon
