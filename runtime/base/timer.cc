#include "runtime/base/timer.h"

#include <chrono>

namespace pto {

TimerQueue::Id TimerQueue::Schedule(int64_t at_ns, std::function<void()> fn) {
  MutexLock lock(mutex_);
  const Id id = next_id_++;
  const bool first = timers_.empty() || at_ns < timers_.begin()->first.first;
  timers_.emplace(std::make_pair(at_ns, id), std::move(fn));
  times_.emplace(id, at_ns);
  if (first) changed_.NotifyAll();
  return id;
}

bool TimerQueue::Cancel(Id id) {
  std::function<void()> dropped;  // destroyed without the lock
  MutexLock lock(mutex_);
  auto it = times_.find(id);
  if (it == times_.end()) return false;
  auto timer = timers_.find({it->second, id});
  dropped = std::move(timer->second);
  timers_.erase(timer);
  times_.erase(it);
  return true;
}

int64_t TimerQueue::RunDue() {
  while (true) {
    std::function<void()> fn;
    {
      MutexLock lock(mutex_);
      if (timers_.empty()) return -1;
      auto first = timers_.begin();
      if (first->first.first > clock_.NowNanos()) return first->first.first;
      fn = std::move(first->second);
      times_.erase(first->first.second);
      timers_.erase(first);
    }
    fn();
  }
}

void TimerQueue::Clear() {
  std::map<std::pair<int64_t, Id>, std::function<void()>> dropped;
  MutexLock lock(mutex_);
  dropped.swap(timers_);
  times_.clear();
}

TimerThread::TimerThread(TimerQueue& queue) : queue_(queue), thread_([this] { Loop(); }) {}

TimerThread::~TimerThread() {
  {
    MutexLock lock(queue_.mutex_);
    stopping_ = true;
    queue_.changed_.NotifyAll();
  }
  thread_.join();
}

void TimerThread::Loop() {
  while (true) {
    queue_.RunDue();
    MutexLock lock(queue_.mutex_);
    if (stopping_) return;
    if (queue_.timers_.empty()) {
      queue_.changed_.Wait(queue_.mutex_);
      continue;
    }
    const int64_t wait = queue_.timers_.begin()->first.first - queue_.clock_.NowNanos();
    if (wait > 0) queue_.changed_.WaitFor(queue_.mutex_, std::chrono::nanoseconds(wait));
  }
}

}  // namespace pto
