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

namespace pto {

// Moves buffers to memory that can be mapped, in a thread of its own, since that takes as long as
// copying them. Those who ask take turns, so that a small buffer does not wait for a large one.
// Thread-safe.
class Mover {
 public:
  // Called in the mover's thread, once for each request.
  using Done = std::function<void(broker::Outcome)>;

  explicit Mover(std::shared_ptr<SharingBudget> budget);
  // Calls what is left with kLimit.
  ~Mover();
  Mover(const Mover&) = delete;
  Mover& operator=(const Mover&) = delete;

  // `wanted` says whether anybody still waits for it.
  void Move(MappedBuffer buffer, std::function<bool()> wanted, Done done);

 private:
  struct Job {
    MappedBuffer buffer;
    std::function<bool()> wanted;
    Done done;
    int waits = 0;
  };

  void Work();
  // Goes on with a job. Returns false when it is to come again, at once or after a while.
  bool Step(Job& job, bool* wait);

  const std::shared_ptr<SharingBudget> budget_;
  Mutex mutex_;
  CondVar changed_;
  std::deque<Job> jobs_ ABSL_GUARDED_BY(mutex_);
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace pto
