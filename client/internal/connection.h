#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "client/internal/async_call.h"
#include "client/internal/channel_security.h"
#include "client/internal/deadline.h"
#include "grpcpp/channel.h"
#include "runtime/base/mutex.h"

namespace pto::internal {

// One connection to a daemon, created by the first call and again after it broke, and its stuck
// calls. Owned by Transport. Thread-safe.
class Connection {
 public:
  Connection(const std::string& address, absl::Duration connect_timeout,
             const ChannelSecurity& security);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  const std::shared_ptr<grpc::Channel>& channel() const { return channel_; }

  // Waits until no call is stuck: a new call would only get stuck, too. False if the deadline
  // passed first, or if `stop` became true. A single load in the normal case.
  bool AwaitClear(const Deadline& deadline, const std::atomic<bool>* stop = nullptr);

  // Destroys a call that nobody waits for any more, and cancels it if necessary. A stuck call is
  // kept until it is not stuck any more. Takes at most a tenth of a second.
  void Release(std::unique_ptr<AsyncCall> call);

 private:
  const std::shared_ptr<grpc::Channel> channel_;
  std::atomic<bool> is_stuck_{false};
  Mutex mutex_;
  std::vector<std::shared_ptr<AsyncCall>> stuck_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace pto::internal
