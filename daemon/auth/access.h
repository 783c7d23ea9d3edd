#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/auth/audit_log.h"
#include "daemon/auth/authenticator.h"
#include "daemon/auth/methods.h"
#include "daemon/auth/open_calls.h"
#include "daemon/auth/principal.h"
#include "daemon/rpc/net/peer.h"
#include "google/protobuf/message.h"

namespace pto::daemon::auth {

// The door of the daemon: who calls, whether they may call this method, and what is written down
// about it. Owned by the node. Thread-safe.
class Access {
 public:
  struct Options {
    Authenticator::Options identity;
    // As AuditLog::Options::path; empty: nothing is written.
    std::string audit_log;
  };

  // Errors: CONFIG_INVALID.
  static absl::StatusOr<std::unique_ptr<Access>> Open(Options options);
  // Of a node without a configuration: the built-in policy, and nothing is written.
  Access();

  // Who calls, if they may call this method whatever the request says; else that is noted.
  // `request` is nullptr for a stream. Errors: UNAUTHENTICATED, PERMISSION_DENIED.
  absl::StatusOr<Caller> Admit(const Method& method, const rpc::Peer* peer,
                               Authenticator::Metadata metadata,
                               const google::protobuf::Message* request);

  // Whether the user at the other end of a unix socket is an operator.
  bool Operates(const rpc::Peer& peer);

  bool audits() const { return audit_ != nullptr; }
  // A call was accepted or refused. Written if the method changes something, or if the caller was
  // refused because of who they are. `caller` may be nullptr, also `request`, which for a stream is
  // its first message.
  void Note(const Method& method, const Principal* caller, const rpc::Peer* peer,
            const google::protobuf::Message* request, const absl::Status& status,
            uint64_t launches = 0, uint64_t refused = 0);

  // Reads the files of policy and tokens again and opens the audit log again. Errors:
  // CONFIG_INVALID; then policy and tokens stay what they were.
  absl::Status Reload();

  AuditLog* audit_log() { return audit_.get(); }

  // Calls that stay open are asked again once a second.
  OpenCalls& open_calls() { return open_calls_; }

 private:
  Access(Options options, std::unique_ptr<AuditLog> audit);

  Authenticator identity_;
  const std::unique_ptr<AuditLog> audit_;
  const Clock& clock_;
  OpenCalls open_calls_{std::chrono::seconds(1)};
};

// What a request names: of its fields those that are names or ids, at most 16. Ids become the names
// of what they are to be.
std::vector<std::string> NamesIn(const google::protobuf::Message& request);

}  // namespace pto::daemon::auth
