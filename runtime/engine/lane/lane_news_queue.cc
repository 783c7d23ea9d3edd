#include "runtime/engine/lane/lane_news_queue.h"

namespace pto::engine {

void LaneNewsQueue::Push(const NewsList& news) {
  if (news.count == 0) return;
  bool was_empty = false;
  {
    SpinLockHolder lock(lock_);
    was_empty = first_ == nullptr;
    (last_ != nullptr ? last_->next : first_) = news.first;
    last_ = news.last;
    size_.fetch_add(news.count, std::memory_order_seq_cst);
  }
  if (was_empty && pollers_.load(std::memory_order_seq_cst) == 0) parking_.Wake(1);
}

LaneNews* LaneNewsQueue::Take(size_t place) {
  if (size() == 0) return nullptr;
  SpinLockHolder lock(lock_);
  LaneNews* previous = nullptr;
  LaneNews* news = first_;
  for (; news != nullptr && place > 0; --place) {
    previous = news;
    news = news->next;
  }
  if (news == nullptr) return nullptr;
  (previous != nullptr ? previous->next : first_) = news->next;
  if (last_ == news) last_ = previous;
  news->next = nullptr;
  size_.fetch_sub(1, std::memory_order_release);
  return news;
}

}  // namespace pto::engine
