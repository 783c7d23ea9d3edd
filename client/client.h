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

// A way to one daemon: three connections (control, events, bulk data), the last two opened
// when they are first used.
//
// Promise, for this class and for everything made by it: a call returns a value or an error, it
// never takes longer than its timeout, and an error says what to do next. Errors of the daemon
// keep their code, reason and hint (GetErrorDetail in runtime/base/error.h). The library adds
//   UNAVAILABLE / DAEMON_UNREACHABLE    nothing answers at the address; the message has the cause
//   DEADLINE_EXCEEDED / CLIENT_TIMEOUT  no answer in time; the message names the call
//   ABORTED / BOOT_ID_CHANGED           the daemon was restarted; the session is gone
//
// A timeout of kDefaultTimeout means ClientOptions::timeout; absl::InfiniteDuration() means no
// limit. Thread-safe. What a client made may outlive it: the connections close with the last
// object that uses them. A client that was moved from can only be destroyed or assigned to.
class Client {
 public:
  // Reaches the daemon and asks it who it is. `address` is `unix:/path`, `host:port`, or empty:
  // the environment's PTOD_ADDRESS, else ptod.sock in XDG_RUNTIME_DIR when it is there and the
  // user is not root, else kDefaultAddress. Takes at most ClientOptions::connect_timeout.
  static absl::StatusOr<Client> Connect(absl::string_view address = "",
                                        const ClientOptions& options = {});

  ~Client();
  Client(Client&&) noexcept;
  Client& operator=(Client&&) noexcept;

  // The address in use.
  const std::string& address() const;
  // What the daemon said when this client connected; after a restart GetNode says otherwise.
  const v1::Node& node() const;

  // Leases a session, which is renewed until the Session is closed or destroyed.
  absl::StatusOr<Session> CreateSession(const SessionOptions& options = {},
                                        absl::Duration timeout = kDefaultTimeout);
  // A view of a session that exists, by full name. It is neither renewed nor deleted by this
  // object; calls on it extend its lease as any call does.
  absl::StatusOr<Session> AttachSession(absl::string_view name,
                                        absl::Duration timeout = kDefaultTimeout);

  // The calls below are the daemon's own, one to one; proto/pto/v1 describes them. Lists fetch
  // all pages. Names are full names, such as `sessions/s1/runs/r1`.

  absl::StatusOr<v1::Node> GetNode(absl::Duration timeout = kDefaultTimeout);
  absl::StatusOr<v1::Config> GetConfig(absl::Duration timeout = kDefaultTimeout);
  absl::StatusOr<std::vector<v1::Chip>> ListChips(absl::Duration timeout = kDefaultTimeout);
  absl::StatusOr<v1::Chip> GetChip(absl::string_view name,
                                   absl::Duration timeout = kDefaultTimeout);
  // Returns at once with the drain's progress. `grace` of zero means the configured one.
  absl::StatusOr<v1::DrainNodeResponse> DrainNode(absl::string_view reason, absl::Duration grace,
                                                  absl::Duration timeout = kDefaultTimeout);
  absl::StatusOr<v1::Chip> ResetChip(absl::string_view name, bool force,
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
  absl::StatusOr<v1::Kernel> GetKernel(absl::string_view name,
                                       absl::Duration timeout = kDefaultTimeout);

  absl::StatusOr<v1::Graph> GetGraph(absl::string_view name,
                                     absl::Duration timeout = kDefaultTimeout);
  // The same with its structure, in full columns: of at most so many of its first tasks, or of
  // all when that is zero.
  absl::StatusOr<v1::Graph> GetGraphStructure(absl::string_view name, uint64_t max_tasks = 0,
                                              absl::Duration timeout = kDefaultTimeout);

  // `session` is a full name, or `sessions/-` for all. At most `limit` runs, newest first; zero
  // means all.
  absl::StatusOr<std::vector<v1::Run>> ListRuns(absl::string_view session = "sessions/-",
                                                bool active_only = false, uint64_t limit = 0,
                                                absl::Duration timeout = kDefaultTimeout);
  absl::StatusOr<v1::Run> GetRun(absl::string_view name, absl::Duration timeout = kDefaultTimeout);
  // Its tasks, as far as they are known, in full columns: at most so many, or all when that is
  // zero. Of an open run those before the structure's `first_task` are not.
  absl::StatusOr<v1::RunGraph> GetRunGraph(absl::string_view name, uint64_t max_tasks = 0,
                                           absl::Duration timeout = kDefaultTimeout);
  // Returns the run in its final state, or CLIENT_TIMEOUT when it has not ended in time.
  absl::StatusOr<v1::Run> WaitRun(absl::string_view name, absl::Duration timeout = kDefaultTimeout);
  // Returns at once; the run may still be CANCELLING.
  absl::StatusOr<v1::Run> CancelRun(absl::string_view name, absl::string_view reason = "",
                                    absl::Duration timeout = kDefaultTimeout);
  absl::StatusOr<v1::ExplainRunResponse> ExplainRun(absl::string_view name, uint32_t max_tasks = 0,
                                                    absl::Duration timeout = kDefaultTimeout);

 private:
  explicit Client(std::shared_ptr<internal::Core> core);

  std::shared_ptr<internal::Core> core_;
};

}  // namespace pto
