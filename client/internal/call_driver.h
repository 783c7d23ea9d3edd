#pragma once

#include <cstdint>

#include "client/internal/deadline.h"
#include "grpcpp/completion_queue.h"
#include "runtime/base/mutex.h"

namespace pto::internal {

// One step of an asynchronous call: its tag in the completion queue.
struct CallOp {
  enum class State { kIdle, kPending, kDone };
  State state = State::kIdle;
  // Valid when done.
  bool ok = false;

  bool idle() const { return state == State::kIdle; }
  bool pending() const { return state == State::kPending; }
  bool done() const { return state == State::kDone; }
};

// The completion queue of one streaming call, driven by the threads that wait for the call:
// one of them polls, the others wait until it has something. This gives each wait a deadline
// of its own, which gRPC's synchronous streams do not have, without a thread behind the scenes.
//
// The owner's state and all operations are guarded by mutex(). An operation is started with
// Begin as its tag, under the mutex; one at a time of each. Before the driver is destroyed,
// nothing may be pending: cancel the call, then Drain.
class CallDriver {
 public:
  CallDriver() = default;
  ~CallDriver();
  CallDriver(const CallDriver&) = delete;
  CallDriver& operator=(const CallDriver&) = delete;

  Mutex& mutex() ABSL_LOCK_RETURNED(mutex_) { return mutex_; }
  grpc::CompletionQueue* queue() { return &queue_; }

  // Marks the operation as pending and returns its tag.
  void* Begin(CallOp& op) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Waits until some operation has ended, here or in another thread; false when the deadline
  // passed first. Unlocks the mutex meanwhile. The caller looks at its operations again.
  bool Step(const Deadline& deadline) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Waits until nothing is pending; false when the deadline passed first.
  bool Drain(const Deadline& deadline) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

 private:
  grpc::CompletionQueue queue_;
  Mutex mutex_;
  CondVar stepped_;
  bool polling_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t steps_ ABSL_GUARDED_BY(mutex_) = 0;
  int pending_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace pto::internal
