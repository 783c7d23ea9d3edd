#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "daemon/auth/policy.h"
#include "daemon/auth/principal.h"
#include "daemon/auth/token_file.h"
#include "daemon/rpc/net/peer.h"
#include "runtime/base/clock.h"
#include "runtime/base/mutex.h"

namespace pto::daemon::auth {

// Tells who is at the other end of a connection, and what they may do.
//
// On a unix socket it is the user that the kernel reports, whatever the call says; with TLS the
// name in the client's certificate, or else the owner of a token; with TCP the owner of a token. A
// user is looked up once and then kept, so a call costs a look into a small table. Thread-safe.
class Authenticator {
 public:
  struct Options {
    // Files; empty: none. See Policy and TokenFile.
    std::string policy_file;
    std::string token_file;
    // Whether a connection over a loopback address needs no token: its principal is `loopback`.
    bool trust_loopback = false;
    // The user that the daemon runs as.
    uint32_t own_uid = 0;
    const Clock* clock = &Clock::Real();
    // As GroupsOf.
    std::function<std::vector<uint32_t>(uint32_t uid, uint32_t gid)> groups_of;
  };

  // A value of the call's metadata.
  using Metadata = absl::FunctionRef<absl::optional<std::string>(absl::string_view key)>;

  // Without files: everybody is what the built-in policy says.
  explicit Authenticator(Options options);

  // Reads the files. Errors: CONFIG_INVALID; then what was known before stays valid.
  absl::Status Reload();

  // Errors: UNAUTHENTICATED. `peer` may be nullptr.
  absl::StatusOr<Caller> Identify(const rpc::Peer* peer, Metadata metadata);

 private:
  struct User {
    Caller caller;
    int64_t until_ns = 0;  // when the groups are looked up again
  };

  Caller IdentifyUser(uint32_t uid, uint32_t gid);
  absl::StatusOr<Caller> IdentifyToken(const rpc::Peer& peer, Metadata metadata);
  // Reads the file of tokens if it is another one than before.
  void LookAtTokens();

  const Options options_;
  std::atomic<int64_t> next_look_ns_{0};

  Mutex mutex_;
  std::shared_ptr<const Policy> policy_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<const TokenFile> tokens_ ABSL_GUARDED_BY(mutex_);
  // What the file of tokens was when it was read.
  std::string tokens_seen_ ABSL_GUARDED_BY(mutex_);
  // By uid and gid. Dropped as a whole with the policy, and when it gets large.
  absl::flat_hash_map<uint64_t, User> users_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace pto::daemon::auth
