#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "client/options.h"
#include "client/session.h"
#include "pto/v1/buffer.pb.h"
#include "pto/v1/domain.pb.h"
#include "pto/v1/kernel.pb.h"
#include "pto/v1/node.pb.h"
#include "pto/v1/run.pb.h"
#include "pto/v1/session.pb.h"

namespace pto {

namespace internal {
class Core;
}  // namespace internal

// A client of one daemon. Uses three connections: control, events and bulk data. The last two are
// opened on first use.
//
// Guarantees, for this class and all objects created by it: a call returns a value or an error,
// never takes longer than its timeout, and each error tells what to do next. Errors from the daemon
// keep their code, reason and hint (GetErrorDetail in runtime/base/error.h). The library adds
//   UNAVAILABLE / DAEMON_UNREACHABLE    no daemon at the address; the message gives the cause
//   DEADLINE_EXCEEDED / CLIENT_TIMEOUT  no reply in time; the message names the call
//   ABORTED / BOOT_ID_CHANGED           the daemon was restarted; the session is lost
//
// A timeout of kDefaultTimeout means ClientOptions::timeout; absl::InfiniteDuration() means no
// limit. Thread-safe. Objects created by a client may outlive it: the connections close with the
// last object that uses them. A moved-from client can only be destroyed or assigned to.
class Client {
 public:
  // Connects to the daemon and fetches its node information. `address` is `unix:/path` or
  // `host:port`. If it is empty, the client uses the environment variable PTOD_ADDRESS; if that is
  // not set, ptod.sock in XDG_RUNTIME_DIR if it exists and the user is not root; otherwise
  // kDefaultAddress. Takes at most ClientOptions::connect_timeout.
  static absl::StatusOr<Client> Connect(absl::string_view address = "",
                                        const ClientOptions& options = {});

  ~Client();
  Client(Client&&) noexcept;
  Client& operator=(Client&&) noexcept;

  // The address in use.
  const std::string& address() const;
  // The node information from the time of Connect. Use GetNode for the current one.
  const v1::Node& node() const;

  // Creates a session. The library renews its lease until the Session is closed or destroyed.
  absl::StatusOr<Session> CreateSession(const SessionOptions& options = {},
                                        absl::Duration timeout = kDefaultTimeout);
  // Opens an existing session by full name. The returned object neither renews nor deletes the
  // session, but each call on it extends the lease.
  absl::StatusOr<Session> AttachSession(absl::string_view name,
                                        absl::Duration timeout = kDefaultTimeout);

  // Each method below makes the RPC of the same name; see proto/pto/v1. List methods fetch all
  // pages. Names are full names, for example `sessions/s1/runs/r1`.

  absl::StatusOr<v1::Node> GetNode(absl::Duration timeout = kDefaultTimeout);
  absl::StatusOr<v1::Config> GetConfig(absl::Duration timeout = kDefaultTimeout);
  absl::StatusOr<std::vector<v1::Chip>> ListChips(absl::Duration timeout = kDefaultTimeout);
  absl::StatusOr<v1::Chip> GetChip(absl::string_view name,
                                   absl::Duration timeout = kDefaultTimeout);
  // Returns immediately with the progress of the drain. A `grace` of zero means the configured
  // grace period.
  absl::StatusOr<v1::DrainNodeResponse> DrainNode(absl::string_view reason, absl::Duration grace,
                                                  absl::Duration timeout = kDefaultTimeout);
  absl::StatusOr<v1::Chip> ResetChip(absl::string_view name, bool force,
                                     absl::Duration timeout = kDefaultTimeout);
  // From the hour of `begin` to that of `end`; all principals that the caller may see if
  // `principal` is empty.
  absl::StatusOr<std::vector<v1::Usage>> ListUsage(absl::Time begin = absl::InfinitePast(),
                                                   absl::Time end = absl::InfiniteFuture(),
                                                   absl::string_view principal = "",
                                                   absl::Duration timeout = kDefaultTimeout);

  absl::StatusOr<std::vector<v1::Session>> ListSessions(absl::Duration timeout = kDefaultTimeout);
  absl::StatusOr<v1::Session> GetSession(absl::string_view name,
                                         absl::Duration timeout = kDefaultTimeout);
  absl::StatusOr<v1::Session> DeleteSession(absl::string_view name, bool allow_missing = false,
                                            absl::Duration timeout = kDefaultTimeout);

  absl::StatusOr<std::vector<v1::Buffer>> ListBuffers(absl::string_view session,
                                                      absl::Duration timeout = kDefaultTimeout);

  absl::StatusOr<std::vector<v1::Domain>> ListDomains(absl::string_view session,
                                                      absl::Duration timeout = kDefaultTimeout);

  absl::StatusOr<std::vector<v1::Kernel>> ListKernels(absl::Duration timeout = kDefaultTimeout);
  // The uploaded kernels of a session.
  absl::StatusOr<std::vector<v1::Kernel>> ListKernels(absl::string_view session,
                                                      absl::Duration timeout = kDefaultTimeout);
  absl::StatusOr<v1::Kernel> DeleteKernel(absl::string_view name,
                                          absl::Duration timeout = kDefaultTimeout);
  // The processes that run uploaded kernels.
  absl::StatusOr<std::vector<v1::Host>> ListHosts(absl::Duration timeout = kDefaultTimeout);
  absl::StatusOr<v1::Kernel> GetKernel(absl::string_view name,
                                       absl::Duration timeout = kDefaultTimeout);

  absl::StatusOr<v1::Graph> GetGraph(absl::string_view name,
                                     absl::Duration timeout = kDefaultTimeout);
  // The same including the structure, with all columns filled. `max_tasks` limits it to the first
  // tasks; zero means no limit.
  absl::StatusOr<v1::Graph> GetGraphStructure(absl::string_view name, uint64_t max_tasks = 0,
                                              absl::Duration timeout = kDefaultTimeout);

  // Lists runs, newest first. `session` is a full name, or `sessions/-` for all sessions. Returns
  // at most `limit` runs; zero means no limit.
  absl::StatusOr<std::vector<v1::Run>> ListRuns(absl::string_view session = "sessions/-",
                                                bool active_only = false, uint64_t limit = 0,
                                                absl::Duration timeout = kDefaultTimeout);
  absl::StatusOr<v1::Run> GetRun(absl::string_view name, absl::Duration timeout = kDefaultTimeout);
  // Returns the tasks that the daemon still keeps, with all columns filled. `max_tasks` limits
  // their number; zero means no limit. For an open run, tasks before the structure's `first_task`
  // are no longer kept.
  absl::StatusOr<v1::RunGraph> GetRunGraph(absl::string_view name, uint64_t max_tasks = 0,
                                           absl::Duration timeout = kDefaultTimeout);
  // Waits for the run to end and returns its final state. CLIENT_TIMEOUT if it has not ended within
  // `timeout`.
  absl::StatusOr<v1::Run> WaitRun(absl::string_view name, absl::Duration timeout = kDefaultTimeout);
  // Returns immediately; the run may still be CANCELLING.
  absl::StatusOr<v1::Run> CancelRun(absl::string_view name, absl::string_view reason = "",
                                    absl::Duration timeout = kDefaultTimeout);
  absl::StatusOr<v1::ExplainRunResponse> ExplainRun(absl::string_view name, uint32_t max_tasks = 0,
                                                    absl::Duration timeout = kDefaultTimeout);

 private:
  explicit Client(std::shared_ptr<internal::Core> core);

  std::shared_ptr<internal::Core> core_;
};

}  // namespace pto
