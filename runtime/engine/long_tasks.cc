#include "runtime/engine/long_tasks.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace pto {

LongTask& LongTasks::Begin(uint32_t task, const std::function<void(LongTask&)>& fill) {
  MutexLock lock(mutex_);
  std::unique_ptr<LongTask>& entry = tasks_[task];
  if (entry == nullptr) {
    used_.store(true, std::memory_order_relaxed);
    entry = std::make_unique<LongTask>();
    fill(*entry);
  }
  return *entry;
}

LongTask* LongTasks::Find(uint32_t task) {
  MutexLock lock(mutex_);
  const auto found = tasks_.find(task);
  return found == tasks_.end() ? nullptr : found->second.get();
}

std::unique_ptr<LongTask> LongTasks::End(uint32_t task) {
  // A task's entry is made before its end.
  if (!used_.load(std::memory_order_relaxed)) return nullptr;
  MutexLock lock(mutex_);
  const auto found = tasks_.find(task);
  if (found == tasks_.end()) return nullptr;
  std::unique_ptr<LongTask> entry = std::move(found->second);
  tasks_.erase(found);
  return entry;
}

bool LongTasks::MarkLate(uint32_t task) {
  MutexLock lock(mutex_);
  const auto found = tasks_.find(task);
  if (found == tasks_.end()) return false;
  LongTask& late = *found->second;
  for (const TaskWaiterLink* waiter = first_; waiter != nullptr; waiter = waiter->next_) {
    if (waiter->task() != task) continue;
    if (late.late_waits.empty()) late.late_for = waiter->Describe();
    late.late_waits.push_back(waiter->ticket_);
  }
  late.late.store(true, std::memory_order_release);
  return true;
}

void LongTasks::NoteLate(LongTask& late, const BlockTicket& ticket, uint64_t began_ticks,
                         absl::string_view said) {
  MutexLock lock(mutex_);
  const bool waited = std::any_of(late.late_waits.begin(), late.late_waits.end(),
                                  [&ticket](const BlockTicket& waits) {
                                    return waits.member == ticket.member &&
                                           waits.block == ticket.block && waits.lane == ticket.lane;
                                  });
  const absl::optional<LateCall>& noted = late.late_call;
  if (noted.has_value() &&
      std::make_tuple(noted->waited, noted->began_ticks) <= std::make_tuple(waited, began_ticks)) {
    return;
  }
  late.late_call = LateCall{ticket, began_ticks, waited, std::string(said)};
}

std::vector<TimerQueue::Id> LongTasks::Clear() {
  std::vector<TimerQueue::Id> timers;
  MutexLock lock(mutex_);
  for (const auto& [task, entry] : tasks_) {
    if (entry->timer != 0) timers.push_back(entry->timer);
  }
  tasks_.clear();
  return timers;
}

void LongTasks::Add(TaskWaiterLink& waiter) {
  MutexLock lock(mutex_);
  waiter.previous_ = last_;
  waiter.next_ = nullptr;
  (last_ != nullptr ? last_->next_ : first_) = &waiter;
  last_ = &waiter;
}

void LongTasks::Remove(TaskWaiterLink& waiter) {
  MutexLock lock(mutex_);
  (waiter.previous_ != nullptr ? waiter.previous_->next_ : first_) = waiter.next_;
  (waiter.next_ != nullptr ? waiter.next_->previous_ : last_) = waiter.previous_;
}

std::vector<WaitTable::Key> LongTasks::Waits(uint32_t task) const {
  std::vector<WaitTable::Key> keys;
  MutexLock lock(mutex_);
  for (const TaskWaiterLink* waiter = first_; waiter != nullptr; waiter = waiter->next_) {
    if (task == kAllTasks || waiter->task() == task) keys.push_back(waiter->key_);
  }
  return keys;
}

}  // namespace pto
