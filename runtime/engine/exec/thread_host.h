#pragma once

#include "runtime/base/mutex.h"
#include "runtime/engine/exec/block_host.h"

namespace pto::engine {

// A thread that a block has for itself.
class ThreadHost final : public BlockHost {
 public:
  void Park() override {
    MutexLock lock(mutex_);
    while (!unparked_) changed_.Wait(mutex_);
    unparked_ = false;
  }
  void Unpark() override {
    // Told under the lock: the block, and this with it, may end as soon as it is free.
    MutexLock lock(mutex_);
    unparked_ = true;
    changed_.NotifyOne();
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  bool unparked_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace pto::engine
