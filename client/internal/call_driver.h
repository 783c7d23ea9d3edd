#pragma once

#include <cstdint>

#include "client/internal/deadline.h"
#include "grpcpp/completion_queue.h"
#include "runtime/base/mutex.h"

namespace pto::internal {

// One operation of an asynchronous call: its tag in the completion queue.
struct CallOp {
  enum class State { kIdle, kPending, kDone };
  State state = State::kIdle;
  // Valid once the operation is done.
  bool ok = false;

  bool idle() const { return state == State::kIdle; }
  bool pending() const { return state == State::kPending; }
  bool done() const { return state == State::kDone; }
};

// The completion queue of one streaming call, driven by the threads that wait for the call: one of
// them polls, the others wait for its result. This gives each wait its own deadline, which gRPC's
// synchronous streams lack, without a background thread.
//
// mutex() guards the owner's state and all operations. Start an operation with Begin as its tag,
// under the mutex; each operation can be pending once. Before the driver is destroyed, nothing may
// be pending: cancel the call, then Drain.
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

  // Waits until some operation has ended, here or in another thread; false if the deadline passed
  // first. Unlocks the mutex meanwhile. The caller then checks its operations again.
  bool Step(const Deadline& deadline) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Waits until nothing is pending; false if the deadline passed first.
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
