#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "client/internal/async_call.h"
#include "client/internal/deadline.h"
#include "grpcpp/channel.h"
#include "runtime/base/mutex.h"

namespace pto::internal {

// One connection to a daemon, made by the first call on it and again after it broke, and the
// calls that are stuck in it. Owned by Transport. Thread-safe.
class Connection {
 public:
  Connection(const std::string& address, absl::Duration connect_timeout);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  const std::shared_ptr<grpc::Channel>& channel() const { return channel_; }

  // Waits until no call is stuck: a new one would only join them. False when the deadline
  // passed first, or when `stop` became true. One load in the good case.
  bool AwaitClear(const Deadline& deadline, const std::atomic<bool>* stop = nullptr);

  // Destroys a call that nobody waits for any more, and cancels it if need be. When it is
  // stuck it is kept until it is not. Takes a tenth of a second at most.
  void Release(std::unique_ptr<AsyncCall> call);

 private:
  const std::shared_ptr<grpc::Channel> channel_;
  std::atomic<bool> is_stuck_{false};
  Mutex mutex_;
  std::vector<std::shared_ptr<AsyncCall>> stuck_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace pto::internal
