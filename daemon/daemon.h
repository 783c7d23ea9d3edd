#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "daemon/auth/access.h"
#include "daemon/broker/broker.h"
#include "daemon/config/effective.h"
#include "daemon/explain/explainer.h"
#include "daemon/health/chip_monitor.h"
#include "daemon/health/health_service.h"
#include "daemon/metrics/endpoint.h"
#include "daemon/node/node.h"
#include "daemon/reloader.h"
#include "daemon/rpc/outages.h"
#include "daemon/rpc/reflection_service.h"
#include "daemon/rpc/server.h"
#include "daemon/services/buffer_service.h"
#include "daemon/services/domain_service.h"
#include "daemon/services/event_service.h"
#include "daemon/services/kernel_service.h"
#include "daemon/services/node_service.h"
#include "daemon/services/run_service.h"
#include "daemon/services/session_service.h"
#include "daemon/shell/file_lock.h"
#include "daemon/shell/inherited_sockets.h"
#include "daemon/shell/socket_guard.h"
#include "runtime/base/mutex.h"
#include "runtime/chip/shared_file.h"
#include "runtime/host/host_process.h"

namespace pto::daemon {

// A running ptod without its process: the node, its services and the server. Used by one thread.
class Daemon {
 public:
  // Takes the sockets and the state directory and begins to serve. Errors: INSTANCE_RUNNING,
  // PATH_UNUSABLE, JOURNAL_NEWER, LISTEN_FAILED. `kernel_host` starts the process of a session's
  // own kernels; without arguments no kernels can be uploaded. Addresses at which `inherited`
  // listens are not bound again.
  static absl::StatusOr<std::unique_ptr<Daemon>> Start(const EffectiveConfig& configured,
                                                       host::HostCommand kernel_host = {},
                                                       InheritedSockets inherited = {});
  ~Daemon();
  Daemon(const Daemon&) = delete;
  Daemon& operator=(const Daemon&) = delete;

  // As bound.
  const std::vector<std::string>& addresses() const { return server_->addresses(); }
  const Node& node() const { return node_; }
  // Where metrics are served; empty when they are not.
  std::string metrics_address() const { return metrics_ == nullptr ? "" : metrics_->address(); }

  // Applies what can change while the daemon serves, of a valid configuration that was read again.
  // Returns the first error; what could be applied is. Log lines name what has changed.
  absl::Status Reload(const EffectiveConfig& next);
  // Has the files that are only appended to opened again, for logrotate. The log itself is standard
  // error.
  void ReopenLogs();

  // Refuses new work; what runs has the configured grace.
  void BeginDrain(absl::string_view reason);
  // Waits for the runs, at most `timeout`. Returns whether all have ended.
  bool WaitDrained(absl::Duration timeout) { return node_.WaitDrained(timeout); }
  // The same of what executes: then no kernel runs.
  bool WaitIdle(absl::Duration timeout) { return node_.WaitIdle(timeout); }
  // Writes down how everything is, soon: to the state directory, or to the log.
  void Dump(std::string why) { explainer_.Dump(std::move(why)); }
  // Reads the files of policy and tokens again, and opens the audit log again. Errors:
  // CONFIG_INVALID; then what was known before stays valid.
  absl::Status ReloadAccess() { return node_.access().Reload(); }
  // Cancels what still runs.
  void CancelRuns();
  // Cancels what is left, ends the streams and stops serving.
  void Stop();

 private:
  Daemon(const EffectiveConfig& effective, std::unique_ptr<auth::Access> access,
         std::shared_ptr<Journal> journal, std::string boot_id, host::HostCommand kernel_host);

  // Parts of the daemon whose settings can change are told of by these.
  void AddReloads();

  // Serves the memory broker beside the unix socket at `path`. Without it buffers are copied, so
  // what goes wrong is only logged.
  void StartBroker(const std::string& path);

  // Tells the health service whether runs are taken: not while the node drains, while the journal
  // cannot be written, when no chip can be used, or when kernels hold all threads. From any thread.
  void TellRunService();

  // Waits at its end, for a while, until the pages of shared buffers are free: afterwards whoever
  // has them mapped would keep them.
  struct SharedPages {
    ~SharedPages();
    std::shared_ptr<engine::SharingBudget> budget;
  };

  Reloader reloader_;
  // What SIGUSR1 calls: each opens its file again. Filled before the daemon serves.
  std::vector<std::function<absl::Status()>> reopen_logs_;
  // The guards come first: they go last, when nothing uses their files any more.
  std::unique_ptr<FileLock> state_lock_;
  std::vector<std::unique_ptr<SocketGuard>> guards_;
  std::shared_ptr<Journal> journal_;  // nullptr without a state directory
  SharedPages shared_pages_;          // goes after the node, which has the buffers
  rpc::Outages outages_;
  Node node_;
  Explainer explainer_;
  HealthService health_;
  Mutex run_service_mutex_;  // while it is found out and told
  NodeService node_service_;
  SessionService session_service_;
  BufferService buffer_service_;
  KernelService kernel_service_;
  DomainService domain_service_;
  RunService run_service_;
  EventService event_service_;
  rpc::ReflectionService reflection_service_;
  std::unique_ptr<Broker> broker_;              // nullptr when there is none
  std::unique_ptr<metrics::Endpoint> metrics_;  // nullptr: not served
  std::unique_ptr<ChipMonitor> monitor_;
  std::unique_ptr<rpc::Server> server_;
};

}  // namespace pto::daemon
