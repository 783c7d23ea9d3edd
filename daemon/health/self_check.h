#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "grpc/health/v1/health.grpc.pb.h"

namespace pto::daemon {

// Asks the daemon, from inside, over a socket that it listens on, and as a client would. Keeps one
// connection, so that limits for new connections do not matter. For one thread.
class SelfCheck {
 public:
  // Takes the first unix socket of these, or else the first address.
  explicit SelfCheck(const std::vector<std::string>& addresses);

  // OK when grpc.health.v1 has answered, whatever it said: a daemon that drains answers too.
  absl::Status Ask(absl::Duration timeout);

 private:
  std::unique_ptr<grpc::health::v1::Health::Stub> stub_;
};

}  // namespace pto::daemon
