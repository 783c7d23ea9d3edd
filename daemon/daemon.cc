#include "daemon/daemon.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "daemon/graph/names.h"
#include "daemon/shell/listen_address.h"
#include "daemon/version.h"
#include "runtime/base/error.h"
#include "runtime/base/log.h"
#include "runtime/base/status_macros.h"

namespace pto {
namespace {

using config::v1::DaemonConfig;

// How long calls that are open may take to end once the streams have been told to.
constexpr absl::Duration kShutdownGrace = absl::Seconds(2);

absl::Duration ToDuration(const google::protobuf::Duration& duration) {
  return absl::Seconds(duration.seconds()) + absl::Nanoseconds(duration.nanos());
}

Node::Options NodeOptions(const DaemonConfig& config) {
  Node::Options options;
  ChipSpec chip;
  chip.clusters = config.sim_chips().clusters();
  chip.memory_bytes = config.sim_chips().memory_bytes();
  options.chips.assign(config.sim_chips().count(), chip);
  options.executors = config.executor_threads();
  options.drain_grace = ToDuration(config.drain_grace());
  options.session_times.default_ttl = ToDuration(config.session().default_ttl());
  options.session_times.min_ttl = ToDuration(config.session().min_ttl());
  options.session_times.max_ttl = ToDuration(config.session().max_ttl());
  const config::v1::LimitsConfig& limits = config.limits();
  options.limits.max_graph_tasks = limits.max_graph_tasks();
  options.limits.max_block_tasks = limits.max_block_tasks();
  options.limits.max_graph_tensors = limits.max_graph_tensors();
  options.limits.max_graph_edges = limits.max_graph_edges();
  options.limits.max_chunk_bytes = limits.max_chunk_bytes();
  options.limits.max_buffer_bytes = limits.max_buffer_bytes();
  options.limits.max_session_buffers = limits.max_session_buffers();
  options.limits.max_session_active_runs = limits.max_session_active_runs();
  options.limits.max_session_finished_runs = limits.max_session_finished_runs();
  options.limits.max_session_live_tasks = limits.max_session_live_tasks();
  options.limits.max_session_graphs = limits.max_session_graphs();
  options.limits.max_sessions = limits.max_sessions();
  options.limits.event_log_bytes = limits.event_log_bytes();
  options.limits.max_message_bytes = limits.max_message_bytes();
  return options;
}

// What takes new work, and so is not serving while the node drains.
constexpr absl::string_view kWorkServices[] = {"pto.v1.RunService", "pto.v1.SessionService"};

}  // namespace

Daemon::Daemon(const DaemonConfig& config)
    : node_(NodeOptions(config)),
      explainer_(node_, {ToDuration(config.stall_after()), config.state_dir()}),
      node_service_(node_, std::string(kVersion), std::string(kRevision)),
      session_service_(node_),
      buffer_service_(node_),
      kernel_service_(node_),
      domain_service_(node_),
      run_service_(node_, explainer_),
      event_service_(node_) {}

absl::StatusOr<std::unique_ptr<Daemon>> Daemon::Start(const DaemonConfig& config) {
  std::unique_ptr<FileLock> state_lock;
  if (!config.state_dir().empty()) {
    PTO_ASSIGN_OR_RETURN(state_lock, LockStateDirectory(config.state_dir()));
  }
  std::vector<std::unique_ptr<SocketGuard>> guards;
  rpc::Server::Options options;
  for (const std::string& listen : config.listen()) {
    PTO_ASSIGN_OR_RETURN(const ListenAddress address, ListenAddress::Parse(listen));
    if (address.is_unix()) {
      PTO_ASSIGN_OR_RETURN(std::unique_ptr<SocketGuard> guard,
                           SocketGuard::Acquire(address.path()));
      guards.push_back(std::move(guard));
    }
    options.listen.push_back(address.ToString());
  }
  options.max_message_bytes = static_cast<int64_t>(config.limits().max_message_bytes());

  // Before the node has threads: the mask of new files belongs to the process.
  const SocketUmask umask;
  std::unique_ptr<Daemon> daemon(new Daemon(config));
  daemon->state_lock_ = std::move(state_lock);
  daemon->guards_ = std::move(guards);
  daemon->server_ = std::make_unique<rpc::Server>(std::move(options));
  rpc::Server& server = *daemon->server_;
  daemon->health_.Register(server);
  daemon->node_service_.Register(server);
  daemon->session_service_.Register(server);
  daemon->buffer_service_.Register(server);
  daemon->kernel_service_.Register(server);
  daemon->domain_service_.Register(server);
  daemon->run_service_.Register(server);
  daemon->event_service_.Register(server);

  HealthService& health = daemon->health_;
  for (const absl::string_view name :
       {"", "pto.v1.NodeService", "pto.v1.BufferService", "pto.v1.KernelService",
        "pto.v1.DomainService", "pto.v1.EventService"}) {
    health.SetServing(name, true);
  }
  for (const absl::string_view name : kWorkServices) health.SetServing(name, true);
  for (const Chip& chip : daemon->node_.engine().chips()) {
    health.SetServing(names::Chip(chip.index), true);
  }
  daemon->node_.OnDrain([&health] {
    for (const absl::string_view name : kWorkServices) health.SetServing(name, false);
    health.SetServing("", false);
  });
  PTO_RETURN_IF_ERROR(server.Start());
  return daemon;
}

Daemon::~Daemon() { Stop(); }

void Daemon::BeginDrain(absl::string_view reason) {
  node_.BeginDrain(reason, absl::ZeroDuration());
}

void Daemon::CancelRuns() {
  node_.engine().StopIf([](const Run&) { return true; }, RunState::kCancelled,
                        Error(reason::kRunCancelled, "the daemon stops").With("by", "stop"));
}

void Daemon::Stop() {
  if (server_ == nullptr) return;
  // Runs end before the streams, which then have all that there is to tell.
  CancelRuns();
  event_service_.StopStreams();
  run_service_.StopStreams();
  explainer_.Stop();
  health_.Stop();
  server_->Shutdown(absl::Now() + kShutdownGrace);
  server_.reset();
}

}  // namespace pto
