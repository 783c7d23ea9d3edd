#include "runtime/base/timer.h"

#include <algorithm>
#include <chrono>
#include <system_error>

namespace pto {

TimerQueue::Id TimerQueue::Schedule(int64_t at_ns, std::function<void()> fn) {
  MutexLock lock(mutex_);
  at_ns = std::max(at_ns, clock_.NowNanos());
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

std::function<void()> TimerQueue::TakeDue() {
  if (timers_.empty() || timers_.begin()->first.first > clock_.NowNanos()) return nullptr;
  const auto first = timers_.begin();
  std::function<void()> fn = std::move(first->second);
  times_.erase(first->first.second);
  timers_.erase(first);
  return fn;
}

int64_t TimerQueue::RunDue() {
  while (true) {
    std::function<void()> fn;
    {
      MutexLock lock(mutex_);
      fn = TakeDue();
      if (fn == nullptr) return timers_.empty() ? -1 : timers_.begin()->first.first;
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

TimerThread::TimerThread(TimerQueue& queue, size_t most_threads)
    : queue_(queue), most_threads_(most_threads) {
  MutexLock lock(queue_.mutex_);
  Hire();
}

TimerThread::~TimerThread() {
  std::vector<std::thread> threads;
  {
    MutexLock lock(queue_.mutex_);
    stopping_ = true;
    queue_.changed_.NotifyAll();
    vacant_.NotifyAll();
    // None is added any more.
    threads.swap(threads_);
  }
  for (std::thread& thread : threads) thread.join();
}

void TimerThread::Hire() {
  threads_.emplace_back([this] { Loop(); });
  // From now on: else it would be missed, and another one hired, before it begins to run.
  ++idle_;
}

void TimerThread::Loop() {
  while (true) {
    std::function<void()> fn;
    {
      MutexLock lock(queue_.mutex_);
      if (!Lead()) return;
      fn = queue_.TakeDue();
      if (fn != nullptr) HandOver();
    }
    if (fn != nullptr) fn();
    fn = nullptr;
    MutexLock lock(queue_.mutex_);
    ++idle_;
  }
}

bool TimerThread::Lead() {
  while (led_ && !stopping_) vacant_.Wait(queue_.mutex_);
  --idle_;
  led_ = true;
  while (!stopping_) {
    if (queue_.timers_.empty()) {
      queue_.changed_.Wait(queue_.mutex_);
      continue;
    }
    const int64_t wait = queue_.timers_.begin()->first.first - queue_.clock_.NowNanos();
    if (wait <= 0) break;
    queue_.changed_.WaitFor(queue_.mutex_, std::chrono::nanoseconds(wait));
  }
  led_ = false;
  return !stopping_;
}

void TimerThread::HandOver() {
  if (idle_ > 0) {
    vacant_.NotifyOne();
  } else if (threads_.size() < most_threads_) {
    try {
      Hire();
    } catch (const std::system_error&) {
      // The system has no more; this one comes back to it.
    }
  }
}

}  // namespace pto
