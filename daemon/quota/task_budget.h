#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <utility>

#include "daemon/quota/quota.h"
#include "runtime/base/mutex.h"

namespace pto {

// How many tasks of a session's open runs have come and not ended. It refuses nothing: who wants
// to bring more looks whether it is full, and waits. They count for the client too, whose other
// sessions and runs can leave no room. Thread-safe.
class TaskBudget {
 public:
  TaskBudget(uint64_t limit, std::shared_ptr<SessionQuota> quota)
      : limit_(limit), quota_(std::move(quota)) {}

  uint64_t limit() const { return limit_; }
  uint64_t taken() const {
    MutexLock lock(mutex_);
    return taken_;
  }

  void Take(uint64_t tasks) {
    quota_->ChargeOpenTasks(tasks);
    MutexLock lock(mutex_);
    taken_ += tasks;
  }

  // Calls all who wait when there is room.
  void GiveBack(uint64_t tasks) {
    std::map<const void*, std::function<void()>> waiters;
    {
      MutexLock lock(mutex_);
      taken_ -= tasks;
      if (taken_ < limit_) waiters.swap(waiters_);
    }
    quota_->GiveOpenTasks(tasks);
    for (auto& [who, waiter] : waiters) waiter();
  }

  // Returns true when there is room, also for the client. Else `waiter` is called once when there
  // may be; one for each `who`.
  bool AwaitRoom(const void* who, const std::function<void()>& waiter) {
    std::function<void()> before;  // destroyed without the lock
    {
      MutexLock lock(mutex_);
      if (taken_ >= limit_) {
        before = std::exchange(waiters_[who], waiter);
        return false;
      }
    }
    return quota_->AwaitTaskRoom(who, waiter);
  }

  // It waits no more.
  void Forget(const void* who) {
    std::function<void()> before;  // destroyed without the lock
    {
      MutexLock lock(mutex_);
      if (const auto found = waiters_.find(who); found != waiters_.end()) {
        before = std::move(found->second);
        waiters_.erase(found);
      }
    }
    quota_->ForgetTaskWaiter(who);
  }

 private:
  const uint64_t limit_;
  const std::shared_ptr<SessionQuota> quota_;
  mutable Mutex mutex_;
  uint64_t taken_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<const void*, std::function<void()>> waiters_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace pto
