#include "runtime/engine/run/long_tasks.h"

#include <tuple>
#include <utility>

namespace pto::engine {
namespace {

// `place` is the member of a wait that the list runs through.
template <typename Place>
void Append(WaitList& list, TaskWaiterLink& waiter, Place TaskWaiterLink::* place) {
  (waiter.*place).previous = list.last;
  (waiter.*place).next = nullptr;
  (list.last != nullptr ? (list.last->*place).next : list.first) = &waiter;
  list.last = &waiter;
}

template <typename Place>
void Unlink(WaitList& list, TaskWaiterLink& waiter, Place TaskWaiterLink::* place) {
  const Place at = waiter.*place;
  (at.previous != nullptr ? (at.previous->*place).next : list.first) = at.next;
  (at.next != nullptr ? (at.next->*place).previous : list.last) = at.previous;
}

}  // namespace

LongTask& LongTasks::Begin(uint32_t task, absl::FunctionRef<int64_t(LongTask&)> fill,
                           SetTimer set_timer) {
  MutexLock lock(mutex_);
  std::unique_ptr<LongTask>& entry = tasks_[task];
  if (entry == nullptr) {
    used_.store(true, std::memory_order_relaxed);
    entry = std::make_unique<LongTask>();
    if (const int64_t at_ns = fill(*entry)) AddDeadline(*entry, at_ns, set_timer);
  }
  return *entry;
}

void LongTasks::AddDeadline(Deadline& deadline, int64_t at_ns, SetTimer set_timer) {
  deadlines_.Add(deadline, at_ns);
  // An early timer costs one check. Moving it for each task that ends in time would cost more.
  if (expiring_ || (timer_ != 0 && timer_ns_ <= at_ns)) return;
  timer_ = set_timer(timer_, at_ns);
  timer_ns_ = at_ns;
}

LongTask* LongTasks::Find(uint32_t task) {
  MutexLock lock(mutex_);
  const auto found = tasks_.find(task);
  return found == tasks_.end() ? nullptr : found->second.get();
}

std::unique_ptr<LongTask> LongTasks::End(uint32_t task) {
  // An entry is created before its task ends, so a relaxed load is enough.
  if (!used_.load(std::memory_order_relaxed)) return nullptr;
  MutexLock lock(mutex_);
  const auto found = tasks_.find(task);
  if (found == tasks_.end()) return nullptr;
  std::unique_ptr<LongTask> entry = std::move(found->second);
  tasks_.erase(found);
  deadlines_.Remove(*entry);
  if (ending_ == entry.get()) ending_ = nullptr;
  return entry;
}

void LongTasks::MarkLate(LongTask& task) {
  for (const TaskWaiterLink* waiter = task.waits_.first; waiter != nullptr;
       waiter = waiter->in_task_.next) {
    if (task.late_waits.empty()) task.late_for = waiter->Describe();
    task.late_waits.insert(PlaceOf(waiter->ticket_));
  }
  task.late.store(true, std::memory_order_release);
}

void LongTasks::NoteLate(LongTask& late, const BlockTicket& ticket, uint64_t began_ticks,
                         absl::string_view said) {
  MutexLock lock(mutex_);
  const bool waited = late.late_waits.contains(PlaceOf(ticket));
  const absl::optional<LateCall>& noted = late.late_call;
  if (noted.has_value() &&
      std::make_tuple(noted->waited, noted->began_ticks) <= std::make_tuple(waited, began_ticks)) {
    return;
  }
  late.late_call = LateCall{ticket, began_ticks, waited, std::string(said)};
}

TimerQueue::Id LongTasks::Clear() {
  MutexLock lock(mutex_);
  deadlines_.Clear();
  tasks_.clear();
  ending_ = nullptr;
  return std::exchange(timer_, 0);
}

void LongTasks::Add(TaskWaiterLink& waiter, LongTask* long_task, int64_t at_ns,
                    SetTimer set_timer) {
  MutexLock lock(mutex_);
  waiter.listed_ = true;
  waiter.long_task_ = long_task;
  Append(waits_, waiter, &TaskWaiterLink::in_run_);
  if (long_task != nullptr) {
    Append(long_task->waits_, waiter, &TaskWaiterLink::in_task_);
    if (waiter.with_call_) {
      Append(long_task->calls_[PlaceOf(waiter.ticket_)], waiter, &TaskWaiterLink::in_call_);
      ++long_task->of_calls_;
    }
  }
  if (at_ns != 0) AddDeadline(waiter, at_ns, set_timer);
}

void LongTasks::Unlist(TaskWaiterLink& waiter) {
  waiter.listed_ = false;
  Unlink(waits_, waiter, &TaskWaiterLink::in_run_);
  if (LongTask* const task = waiter.long_task_) {
    Unlink(task->waits_, waiter, &TaskWaiterLink::in_task_);
    if (waiter.with_call_) {
      const auto call = task->calls_.find(PlaceOf(waiter.ticket_));
      Unlink(call->second, waiter, &TaskWaiterLink::in_call_);
      if (call->second.first == nullptr) task->calls_.erase(call);
      --task->of_calls_;
    }
  }
  deadlines_.Remove(waiter);
}

void LongTasks::Remove(TaskWaiterLink& waiter) {
  MutexLock lock(mutex_);
  if (waiter.listed_) Unlist(waiter);
}

void LongTasks::Claim(TaskWaiterLink& waiter, std::vector<Waiter*>* claimed) {
  Unlist(waiter);
  // The wait is still alive: if it has ended, it needs this lock to leave the lists.
  if (waiter.waiter_.Claim()) claimed->push_back(&waiter.waiter_);
}

std::vector<Waiter*> LongTasks::Expire(int64_t now_ns, size_t most) {
  std::vector<Waiter*> claimed;
  MutexLock lock(mutex_);
  timer_ = 0;
  expiring_ = true;
  for (; most > 0; --most) {
    if (ending_ != nullptr && ending_->waits_.first != nullptr) {
      Claim(*ending_->waits_.first, &claimed);
      continue;
    }
    ending_ = nullptr;
    if (deadlines_.empty() || deadlines_.first_ns() > now_ns) break;
    Deadline& first = deadlines_.first();
    if (first.kind() == Deadline::Kind::kWait) {
      Claim(static_cast<TaskWaiterLink&>(first), &claimed);
      continue;
    }
    deadlines_.Remove(first);
    ending_ = &static_cast<LongTask&>(first);
    MarkLate(*ending_);
  }
  return claimed;
}

void LongTasks::EndExpiry(SetTimer set_timer) {
  MutexLock lock(mutex_);
  expiring_ = false;
  if (ending_ == nullptr && deadlines_.empty()) return;
  timer_ns_ = ending_ != nullptr ? 0 : deadlines_.first_ns();
  timer_ = set_timer(0, timer_ns_);
}

std::vector<Waiter*> LongTasks::ClaimOf(LongTask& task, const BlockTicket& call) {
  std::vector<Waiter*> claimed;
  MutexLock lock(mutex_);
  const auto found = task.calls_.find(PlaceOf(call));
  if (found == task.calls_.end()) return claimed;
  for (TaskWaiterLink* waiter = found->second.first; waiter != nullptr;) {
    TaskWaiterLink& link = *waiter;
    // The last one takes the list along.
    waiter = link.in_call_.next;
    Claim(link, &claimed);
  }
  return claimed;
}

uint32_t LongTasks::WaitsOfCalls(const LongTask& task) const {
  MutexLock lock(mutex_);
  return task.of_calls_;
}

std::vector<Waiter*> LongTasks::ClaimAll() {
  std::vector<Waiter*> claimed;
  MutexLock lock(mutex_);
  while (waits_.first != nullptr) Claim(*waits_.first, &claimed);
  return claimed;
}

}  // namespace pto::engine
