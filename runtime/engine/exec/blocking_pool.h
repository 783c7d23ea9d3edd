#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "runtime/base/mutex.h"

namespace pto::engine {

// Threads for kernels that block. There are as many as have ever been needed at once; those
// without work sleep. Thread-safe.
class BlockingPool {
 public:
  using Job = std::function<void()>;

  BlockingPool() = default;
  // All jobs must have ended, or be about to.
  ~BlockingPool();
  BlockingPool(const BlockingPool&) = delete;
  BlockingPool& operator=(const BlockingPool&) = delete;

  // Runs the job on a thread that has nothing else to do.
  void Run(Job job);

 private:
  void Loop();

  Mutex mutex_;
  CondVar changed_;
  std::deque<Job> jobs_ ABSL_GUARDED_BY(mutex_);
  size_t idle_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace pto::engine
