#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <utility>

#include "daemon/quota/quota.h"
#include "runtime/base/mutex.h"

namespace pto::daemon {

// Counts the tasks of a session's open runs that have arrived and not ended. Refuses nothing: a
// stream that wants to add more checks for room, and waits. The tasks also count for the client,
// whose other sessions and runs may use up the room. Thread-safe.
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

  // Calls all waiters if there is room.
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

  // Returns true if there is room, also for the client. Otherwise `waiter` is called once when
  // there may be; one waiter per `who`.
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

  // Removes its waiter.
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

}  // namespace pto::daemon
