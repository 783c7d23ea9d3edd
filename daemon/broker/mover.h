#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <thread>

#include "daemon/broker/visit.h"
#include "proto/broker/message.h"
#include "runtime/base/mutex.h"
#include "runtime/chip/shared_file.h"

namespace pto::daemon {

// Moves buffers to memory that can be mapped, in its own thread, because a move takes as long as a
// copy. Requests take turns, so that a small buffer does not wait for a large one. Thread-safe.
class Mover {
 public:
  // Called in the mover's thread, once for each request.
  using Done = std::function<void(broker::Outcome)>;

  explicit Mover(std::shared_ptr<engine::SharingBudget> budget);
  // Completes the remaining requests with kLimit.
  ~Mover();
  Mover(const Mover&) = delete;
  Mover& operator=(const Mover&) = delete;

  // `wanted` returns whether anybody still waits for the buffer.
  void Move(MappedBuffer buffer, std::function<bool()> wanted, Done done);

 private:
  struct Job {
    MappedBuffer buffer;
    std::function<bool()> wanted;
    Done done;
    int waits = 0;
  };

  void Work();
  // Continues a job. Returns false if it must be called again, immediately or, with `*wait`, later.
  bool Step(Job& job, bool* wait);

  const std::shared_ptr<engine::SharingBudget> budget_;
  Mutex mutex_;
  CondVar changed_;
  std::deque<Job> jobs_ ABSL_GUARDED_BY(mutex_);
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace pto::daemon
