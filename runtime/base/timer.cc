#include "runtime/base/timer.h"

#include <algorithm>
#include <chrono>
#include <system_error>

namespace pto {

TimerQueue::Id TimerQueue::Schedule(int64_t at_ns, std::function<void()> fn, Group group) {
  MutexLock lock(mutex_);
  at_ns = std::max(at_ns, clock_.NowNanos());
  const Id id = next_id_++;
  const bool first = timers_.empty() || at_ns < timers_.begin()->first.first;
  timers_.emplace(std::make_pair(at_ns, id), Timer{std::move(fn), group});
  times_.emplace(id, at_ns);
  if (first) changed_.NotifyAll();
  return id;
}

bool TimerQueue::Cancel(Id id) {
  std::function<void()> dropped;  // destroyed after the lock is released
  MutexLock lock(mutex_);
  if (const auto it = times_.find(id); it != times_.end()) {
    const auto timer = timers_.find({it->second, id});
    dropped = std::move(timer->second.fn);
    timers_.erase(timer);
    times_.erase(it);
    return true;
  }
  const auto due = due_.find(id);
  if (due == due_.end()) return false;
  dropped = std::move(due->second);
  due_.erase(due);
  return true;
}

void TimerQueue::SortDue() {
  if (timers_.empty()) return;
  const int64_t now = clock_.NowNanos();
  for (int i = 0; i < kSortedAtOnce && !timers_.empty(); ++i) {
    const auto first = timers_.begin();
    if (first->first.first > now) return;
    const Id id = first->first.second;
    const Group group = first->second.group;
    std::deque<Id>& list = due_of_group_[group];
    if (list.empty()) turns_.push_back(group);
    list.push_back(id);
    due_.emplace(id, std::move(first->second.fn));
    times_.erase(id);
    timers_.erase(first);
  }
}

std::function<void()> TimerQueue::TakeDue() {
  SortDue();
  std::function<void()> fn;
  while (fn == nullptr && !turns_.empty()) {
    const auto group = due_of_group_.find(turns_.front());
    turns_.pop_front();
    std::deque<Id>& list = group->second;
    if (const auto due = due_.find(list.front()); due != due_.end()) {
      fn = std::move(due->second);
      due_.erase(due);
    }
    list.pop_front();
    if (list.empty()) {
      due_of_group_.erase(group);
    } else {
      turns_.push_back(group->first);
    }
  }
  return fn;
}

int64_t TimerQueue::NextNanos() const {
  if (!due_.empty()) return INT64_MIN;
  return timers_.empty() ? kNever : timers_.begin()->first.first;
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
  // Destroyed after the lock is released.
  std::map<std::pair<int64_t, Id>, Timer> timers;
  absl::flat_hash_map<Id, std::function<void()>> due;
  MutexLock lock(mutex_);
  timers.swap(timers_);
  due.swap(due_);
  times_.clear();
  due_of_group_.clear();
  turns_.clear();
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
    // No thread is added any more.
    threads.swap(threads_);
  }
  for (std::thread& thread : threads) thread.join();
}

void TimerThread::Hire() {
  threads_.emplace_back([this] { Loop(); });
  // Count the new thread as idle now, so that no other is started before it runs.
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
    const int64_t next = queue_.NextNanos();
    if (next == TimerQueue::kNever) {
      queue_.changed_.Wait(queue_.mutex_);
      continue;
    }
    const int64_t now = queue_.clock_.NowNanos();
    if (next <= now) break;
    queue_.changed_.WaitFor(queue_.mutex_, std::chrono::nanoseconds(next - now));
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
      // The system has no more threads. This thread leads again after its function returns.
    }
  }
}

}  // namespace pto
