#include "runtime/engine/run/task_links.h"

#include <utility>

namespace pto::engine {

TaskLinks::TaskLinks(uint32_t tasks)
    : tasks_(tasks), heads_(std::make_unique<std::atomic<uintptr_t>[]>(tasks)) {}

TaskLinks::~TaskLinks() {
  for (uint32_t task = 0; task < tasks_; ++task) Close(task, End::kFailed);
}

TaskLinks::End TaskLinks::Add(uint32_t task, Waiter waiter) {
  std::atomic<uintptr_t>& head = heads_[task];
  uintptr_t first = head.load(std::memory_order_acquire);
  if (IsEnd(first)) return static_cast<End>(first);
  auto node = std::make_unique<Node>();
  node->waiter = std::move(waiter);
  do {
    if (IsEnd(first)) return static_cast<End>(first);
    node->next = first;
  } while (!head.compare_exchange_weak(first, reinterpret_cast<uintptr_t>(node.get()),
                                       std::memory_order_acq_rel, std::memory_order_acquire));
  (void)node.release();  // owned by the list now
  return End::kNone;
}

std::vector<TaskLinks::Waiter> TaskLinks::Close(uint32_t task, End end) {
  std::vector<Waiter> waiters;
  std::atomic<uintptr_t>& head = heads_[task];
  uintptr_t first = head.load(std::memory_order_acquire);
  do {
    if (IsEnd(first)) return waiters;
  } while (!head.compare_exchange_weak(first, static_cast<uintptr_t>(end),
                                       std::memory_order_acq_rel, std::memory_order_acquire));
  while (first != 0) {
    const std::unique_ptr<Node> node(reinterpret_cast<Node*>(first));
    waiters.push_back(std::move(node->waiter));
    first = node->next;
  }
  return waiters;
}

}  // namespace pto::engine
