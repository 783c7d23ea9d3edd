#include "daemon/daemon.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "daemon/config/machine_defaults.h"
#include "daemon/names/names.h"
#include "daemon/rpc/net/listener.h"
#include "daemon/rpc/tls_credentials.h"
#include "daemon/services/config_view.h"
#include "daemon/shell/listen_address.h"
#include "daemon/version.h"
#include "runtime/base/error.h"
#include "runtime/base/failpoint.h"
#include "runtime/base/host_memory.h"
#include "runtime/base/log.h"
#include "runtime/base/status_macros.h"
#include "runtime/chip/ascend/ascend_chip.h"
#include "runtime/chip/sim/sim_chip.h"

namespace pto::daemon {
namespace {

using config::v1::DaemonConfig;

// How long calls that are open may take to end once the streams have been told to.
constexpr absl::Duration kShutdownGrace = absl::Seconds(2);

// How long pages of shared buffers may take to be free at the end, when a client holds that up.
constexpr std::chrono::seconds kReclaimGrace(1);

absl::Duration ToDuration(const google::protobuf::Duration& duration) {
  return absl::Seconds(duration.seconds()) + absl::Nanoseconds(duration.nanos());
}

// The program of chip hosts, which is beside this one unless the configuration says otherwise.
std::string ChipHostProgram(const DaemonConfig& config) {
  if (!config.ascend().chip_host().empty()) return config.ascend().chip_host();
  char path[4096];
  const ssize_t size = readlink("/proc/self/exe", path, sizeof path);
  const absl::string_view own(path, size < 0 ? 0 : static_cast<size_t>(size));
  return absl::StrCat(own.substr(0, own.rfind('/') + 1), "ptod_chip_host");
}

// Ascend chips first, so that their indices do not depend on simulated ones. Without CANN the
// daemon serves what else there is.
void AddAscendChips(const DaemonConfig& config, std::vector<std::shared_ptr<engine::Chip>>* chips) {
  ascend::AscendOptions options;
  options.program = ChipHostProgram(config);
  options.cann_path = config.ascend().cann_path();
  ascend::AscendChips found = ascend::FindAscendChips(0, options);
  if (!found.trouble.ok()) {
    PTO_LOG(kError,
            found.chips.empty() ? "there are no Ascend chips" : "an Ascend chip cannot be used now",
            {{"error", found.trouble.ToString()}, {"hint", "run `ptoctl doctor`"}});
  }
  if (!found.chips.empty()) {
    PTO_LOG(kInfo, "found Ascend chips", {{"chips", found.chips.size()}, {"cann", found.folder}});
  }
  *chips = std::move(found.chips);
}

// The one place that knows which kinds of chips there are.
std::vector<std::shared_ptr<engine::Chip>> MakeChips(const DaemonConfig& config) {
  std::vector<std::shared_ptr<engine::Chip>> chips;
  if (config.backend() == "ascend") AddAscendChips(config, &chips);
  const auto first = static_cast<uint32_t>(chips.size());
  for (uint32_t i = 0; i < config.sim_chips().count(); ++i) {
    chips.push_back(engine::SimChip::Create(first + i, config.sim_chips().clusters(),
                                            config.sim_chips().memory_bytes()));
  }
  return chips;
}

// What the server takes from the configuration.
void SetConnectionOptions(const DaemonConfig& config, rpc::Server::Options& options) {
  const config::v1::ConnectionsConfig& connections = config.connections();
  options.max_message_bytes = static_cast<int64_t>(config.limits().max_message_bytes());
  options.connections.max_connections = static_cast<int>(connections.max_connections());
  options.connections.max_user_connections = static_cast<int>(connections.max_user_connections());
  options.connections.unfinished_bytes = static_cast<int64_t>(connections.unfinished_bytes());
  // Some messages of the largest size at once, so that it can be used.
  options.connections.traffic.max_unfinished_bytes =
      std::max(options.connections.traffic.max_unfinished_bytes, 4 * options.max_message_bytes);
  options.max_connection_calls = static_cast<int>(connections.max_connection_calls());
  options.handshake_timeout = ToDuration(connections.handshake_timeout());
  options.keepalive_interval = ToDuration(connections.keepalive_interval());
  options.keepalive_timeout = ToDuration(connections.keepalive_timeout());
}

void SetKernelOptions(const config::v1::KernelsConfig& kernels, Node::Options& options) {
  options.kernel_uploads = kernels.uploads() == "off"     ? Node::KernelUploads::kOff
                           : kernels.uploads() == "users" ? Node::KernelUploads::kUsers
                                                          : Node::KernelUploads::kOperators;
  options.kernel_hosts.sandbox.data_bytes = kernels.host_memory_bytes();
  options.kernel_hosts.sandbox.files = kernels.host_files();
  options.kernel_hosts.sandbox.processes = kernels.host_processes();
  // A host copies objects into files that only memory has. Larger ones are no use, and would be
  // memory beyond the limit above.
  options.kernel_hosts.sandbox.file_bytes = options.limits.max_kernel_bytes;
}

Node::Options NodeOptions(const DaemonConfig& config, std::unique_ptr<auth::Access> access,
                          std::shared_ptr<Journal> journal, std::string boot_id,
                          rpc::Outages& outages, host::HostCommand kernel_host) {
  Node::Options options;
  options.access = std::move(access);
  options.not_served = [&outages](int64_t since_ns, int64_t due_ns, int64_t now_ns) {
    outages.NoteTimer(due_ns, now_ns);
    return outages.Since(since_ns, now_ns);
  };
  options.boot_id = std::move(boot_id);
  options.journal = std::move(journal);
  options.run_ids.max_ids = RunIds::MaxIds(config.journal().max_bytes());
  options.run_ids.max_age = ToDuration(config.journal().max_age());
  if (!config.state_dir().empty()) options.usage_path = config.state_dir() + "/usage.db";
  options.usage_interval = ToDuration(config.usage().interval());
  options.chips = MakeChips(config);
  options.executors = config.executor_threads();
  options.drain_grace = ToDuration(config.drain_grace());
  options.stall_after = ToDuration(config.stall_after());
  options.default_task_timeout = ToDuration(config.execution().default_task_timeout());
  options.spare_after = ToDuration(config.execution().spare_after());
  options.max_spare_threads = config.execution().max_spare_threads();
  options.compile_timeout = ToDuration(config.execution().compile_timeout());
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
  options.limits.max_session_device_bytes = limits.max_session_device_bytes();
  options.limits.max_session_windows = limits.max_session_windows();
  options.limits.max_session_tasks = limits.max_session_tasks();
  // So one client alone cannot lock out the others.
  options.limits.max_client_sessions = limits.max_client_sessions() != 0
                                           ? limits.max_client_sessions()
                                           : std::max<uint64_t>(limits.max_sessions() / 4, 1);
  options.limits.max_client_device_bytes = limits.max_client_device_bytes();
  options.limits.max_client_windows = limits.max_client_windows();
  options.limits.max_client_active_runs = limits.max_client_active_runs();
  options.limits.max_client_tasks = limits.max_client_tasks();
  options.limits.max_client_event_log_bytes = limits.max_client_event_log_bytes();
  options.limits.max_memory_bytes = limits.max_memory_bytes();
  options.limits.max_client_memory_bytes = limits.max_client_memory_bytes();
  options.limits.max_kernel_bytes = limits.max_kernel_bytes();
  options.limits.max_client_kernel_bytes = limits.max_client_kernel_bytes();
  SetKernelOptions(config.kernels(), options);
  options.kernel_hosts.command = std::move(kernel_host);
  return options;
}

rpc::TlsFiles TlsFilesOf(const config::v1::TlsConfig& config) {
  return {.cert_file = config.cert_file(),
          .key_file = config.key_file(),
          .client_ca_file = config.client_ca_file(),
          .require_client_cert = config.require_client_cert(),
          .crl_dir = config.crl_dir()};
}

absl::StatusOr<std::unique_ptr<auth::Access>> OpenAccess(const DaemonConfig& config) {
  auth::Access::Options options;
  options.identity.policy_file = config.access().policy_file();
  options.identity.token_file = config.access().token_file();
  options.identity.trust_loopback = config.access().loopback_tcp() == "trust";
  options.identity.own_uid = geteuid();
  options.audit_log = config.access().audit_log();
  return auth::Access::Open(std::move(options));
}

absl::StatusOr<std::shared_ptr<Journal>> OpenJournal(const DaemonConfig& config,
                                                     const std::string& boot_id) {
  Journal::Options options;
  options.directory = config.state_dir();
  options.boot_id = boot_id;
  options.retention.max_runs = config.journal().max_runs();
  options.retention.max_age = ToDuration(config.journal().max_age());
  options.retention.max_bytes = config.journal().max_bytes();
  options.sync_interval = ToDuration(config.journal().sync_interval());
  return Journal::Open(std::move(options));
}

}  // namespace

Daemon::Daemon(const EffectiveConfig& effective, std::unique_ptr<auth::Access> access,
               std::shared_ptr<Journal> journal, std::string boot_id, host::HostCommand kernel_host)
    : reloader_(effective),
      node_(NodeOptions(effective.config, std::move(access), std::move(journal), std::move(boot_id),
                        outages_, std::move(kernel_host))),
      explainer_(node_, {ToDuration(effective.config.stall_after()), effective.config.state_dir()}),
      node_service_(node_, ToProto(effective), std::string(kVersion), std::string(kRevision)),
      session_service_(node_),
      buffer_service_(node_),
      kernel_service_(node_),
      domain_service_(node_),
      run_service_(node_, explainer_),
      event_service_(node_) {}

absl::StatusOr<std::unique_ptr<Daemon>> Daemon::Start(const EffectiveConfig& configured,
                                                      host::HostCommand kernel_host,
                                                      InheritedSockets inherited) {
  EffectiveConfig effective = configured;
  for (const std::string& warning : ApplyMachine(HostMemoryBytes(), &effective)) {
    PTO_LOG(kWarning, warning, {});
  }
  const DaemonConfig& config = effective.config;
  // For tests of what comes while a start takes long.
  (void)PTO_FAILPOINT("daemon.start");
  std::unique_ptr<FileLock> state_lock;
  if (!config.state_dir().empty()) {
    PTO_ASSIGN_OR_RETURN(state_lock, LockStateDirectory(config.state_dir()));
  }
  std::vector<std::unique_ptr<SocketGuard>> guards;
  std::string first_socket;
  rpc::Server::Options options;
  std::shared_ptr<grpc::ServerCredentials> tls;
  if (!config.tls().cert_file().empty()) {
    PTO_ASSIGN_OR_RETURN(tls, rpc::MakeTlsCredentials(TlsFilesOf(config.tls())));
  }
  for (const std::string& listen : config.listen()) {
    PTO_ASSIGN_OR_RETURN(const ListenAddress address, ListenAddress::Parse(listen));
    const bool secure = tls != nullptr && !address.is_unix();
    // gRPC, which encrypts, opens its sockets itself.
    const int open = secure ? -1 : inherited.Claim(address.ToString());
    if (address.is_unix()) {
      PTO_ASSIGN_OR_RETURN(std::unique_ptr<SocketGuard> guard,
                           open >= 0 ? SocketGuard::AcquireInherited(address.path())
                                     : SocketGuard::Acquire(address.path()));
      guards.push_back(std::move(guard));
      if (first_socket.empty()) first_socket = address.path();
    }
    if (secure) {
      options.listen_secure.push_back({address.ToString(), tls});
    } else if (open >= 0) {
      options.listen.push_back(rpc::Listener::Adopted(open, address.ToString()));
    } else {
      options.listen.push_back(address.ToString());
    }
  }
  if (const std::vector<std::string> left = inherited.unclaimed(); !left.empty()) {
    // Clients would connect there and never be served.
    return Error(reason::kListenFailed, absl::StrCat("ptod was started with a socket for ", left[0],
                                                     ", where it is not to listen"))
        .With("address", left[0])
        .Hint("name it in --listen; for TLS, let ptod open its socket itself");
  }
  SetConnectionOptions(config, options);

  PTO_ASSIGN_OR_RETURN(std::unique_ptr<auth::Access> access, OpenAccess(config));
  // The node, which gets it, outlives the server.
  options.connections.is_operator = [&door = *access](const rpc::Peer& peer) {
    return door.Operates(peer);
  };
  // Before the node has threads: the mask of new files belongs to the process.
  const SocketUmask umask;
  std::string boot_id = Node::MakeBootId();
  std::shared_ptr<Journal> journal;
  if (state_lock != nullptr) {
    PTO_ASSIGN_OR_RETURN(journal, OpenJournal(config, boot_id));
  }
  std::unique_ptr<Daemon> daemon(new Daemon(effective, std::move(access), journal,
                                            std::move(boot_id), std::move(kernel_host)));
  daemon->state_lock_ = std::move(state_lock);
  daemon->guards_ = std::move(guards);
  daemon->AddReloads();
  if (config.broker() == "auto" && !first_socket.empty()) daemon->StartBroker(first_socket);
  if (!config.metrics_listen().empty()) {
    PTO_ASSIGN_OR_RETURN(
        daemon->metrics_,
        metrics::Endpoint::Start(daemon->node_, config.metrics_listen(), std::string(kVersion)));
    options.observer = daemon->metrics_->calls();
  }
  options.outages = &daemon->outages_;
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
  daemon->reflection_service_.Register(server);

  HealthService& health = daemon->health_;
  for (const absl::string_view name :
       {"", "pto.v1.NodeService", "pto.v1.BufferService", "pto.v1.KernelService",
        "pto.v1.DomainService", "pto.v1.EventService", "pto.v1.SessionService"}) {
    health.SetServing(name, true);
  }
  for (const std::shared_ptr<engine::Chip>& chip : daemon->node_.engine().chips()) {
    health.SetServing(names::Chip(chip->index()), true);
  }
  Daemon* const self = daemon.get();
  self->node_.OnDrain([self] {
    self->TellRunService();
    for (const absl::string_view name : {"pto.v1.SessionService", ""}) {
      self->health_.SetServing(name, false);
    }
  });
  if (journal != nullptr) {
    daemon->journal_ = journal;
    journal->OnWritable([self](bool) { self->TellRunService(); });
  }
  self->node_.OnStuck([self](bool) { self->TellRunService(); });
  daemon->TellRunService();
  daemon->monitor_ = std::make_unique<ChipMonitor>(self->node_, [self](uint32_t chip, bool usable) {
    self->health_.SetServing(names::Chip(chip), usable);
    self->TellRunService();
  });
  PTO_RETURN_IF_ERROR(server.Start());
  return daemon;
}

void Daemon::AddReloads() {
  reloader_.Add({"log_level", "log_format"}, [](const DaemonConfig& config) {
    LogLevel level = LogLevel::kInfo;
    LogFormat format = LogFormat::kText;
    ParseLogLevel(config.log_level(), &level);
    ParseLogFormat(config.log_format(), &format);
    SetLog(level, format);
    return absl::OkStatus();
  });
  reopen_logs_.push_back([this] {
    if (auth::AuditLog* const audit = node_.access().audit_log()) audit->Reopen();
    return absl::OkStatus();
  });
}

absl::Status Daemon::Reload(const EffectiveConfig& next) {
  // As in Start; the warnings were given there.
  EffectiveConfig adjusted = next;
  ApplyMachine(HostMemoryBytes(), &adjusted);
  absl::Status status = reloader_.Apply(adjusted);
  node_service_.SetConfig(ToProto(reloader_.current()));
  // Whether their settings have changed or not: what matters is in the files.
  status.Update(ReloadAccess());
  return status;
}

void Daemon::ReopenLogs() {
  for (const std::function<absl::Status()>& reopen : reopen_logs_) {
    const absl::Status status = reopen();
    if (!status.ok()) PTO_LOG(kError, "a log was not reopened", {{"error", status.ToString()}});
  }
  PTO_LOG(kInfo, "logs reopened", {{"files", reopen_logs_.size()}});
}

void Daemon::TellRunService() {
  MutexLock lock(run_service_mutex_);
  const bool has_chip = node_.engine().chips().empty() || node_.health().usable_chips() > 0;
  const bool has_threads = !node_.engine().threads_stuck();
  health_.SetServing("pto.v1.RunService", !node_.draining() && has_chip && has_threads &&
                                              (journal_ == nullptr || journal_->writable()));
}

void Daemon::StartBroker(const std::string& path) {
  const auto without = [](const absl::Status& status) {
    PTO_LOG(kWarning, "no memory broker: buffers are copied", {{"error", status.ToString()}});
  };
  Broker::Options options;
  options.path = absl::StrCat(path, ".mem");
  options.sessions = &node_.sessions();
  options.budget = shared_pages_.budget = engine::SharingBudget::OfThisProcess();
  absl::StatusOr<std::unique_ptr<SocketGuard>> guard = SocketGuard::Acquire(options.path);
  if (!guard.ok()) return without(guard.status());
  absl::StatusOr<std::unique_ptr<Broker>> broker = Broker::Start(std::move(options));
  if (!broker.ok()) return without(broker.status());
  guards_.push_back(*std::move(guard));
  broker_ = *std::move(broker);
  node_service_.SetBroker(broker_->path());
}

Daemon::~Daemon() { Stop(); }

Daemon::SharedPages::~SharedPages() {
  if (budget != nullptr && !budget->AwaitReclaimed(kReclaimGrace)) {
    PTO_LOG(kWarning, "a client delays the release of shared memory",
            {{"buffers", budget->reclaiming()}});
  }
}

void Daemon::BeginDrain(absl::string_view reason) {
  node_.BeginDrain(reason, absl::ZeroDuration());
}

void Daemon::CancelRuns() {
  node_.CancelRuns(Error(reason::kRunCancelled, "the daemon stops").With("by", "stop"));
}

void Daemon::Stop() {
  if (server_ == nullptr) return;
  broker_.reset();
  if (monitor_ != nullptr) monitor_->Stop();
  if (journal_ != nullptr) journal_->OnWritable(nullptr);
  node_.OnStuck(nullptr);
  // Runs end before the streams, which then have all that there is to tell.
  CancelRuns();
  event_service_.StopStreams();
  run_service_.StopStreams();
  kernel_service_.StopStreams();
  explainer_.Stop();
  node_.usage().Stop();
  health_.Stop();
  server_->Shutdown(absl::Now() + kShutdownGrace);
  server_.reset();
}

}  // namespace pto::daemon
