#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "runtime/base/spin_lock.h"
#include "runtime/engine/queue/parking.h"

namespace pto::engine {

// Something that a lane has reported and a worker has to handle: a post that has ended, or the
// death of the lane. Contains its own link, so a report needs no memory.
struct LaneNews {
  enum class Kind { kPost, kDeath };
  explicit LaneNews(Kind kind) : kind(kind) {}

  const Kind kind;
  LaneNews* next = nullptr;
};

// A list of news, first in, first out. Not thread-safe.
struct NewsList {
  LaneNews* first = nullptr;
  LaneNews* last = nullptr;
  size_t count = 0;

  void Add(LaneNews& news) {
    news.next = nullptr;
    (last != nullptr ? last->next : first) = &news;
    last = &news;
    ++count;
  }
};

// The news of all lanes of an engine, first in, first out. Its memory is bounded: a post is in it
// at most once, and each post has a core. Thread-safe.
class LaneNewsQueue {
 public:
  explicit LaneNewsQueue(Parking& parking) : parking_(parking) {}
  LaneNewsQueue(const LaneNewsQueue&) = delete;
  LaneNewsQueue& operator=(const LaneNewsQueue&) = delete;

  size_t size() const { return size_.load(std::memory_order_seq_cst); }

  // Adds the news and wakes one sleeping worker. Wakes nobody while there are earlier news: the
  // worker that was woken for those takes these too, or calls PassOn.
  void Push(const NewsList& news);
  // A thread that is awake looks whether there are news. Until EndPoll, Push wakes nobody. After
  // that, the thread looks once more.
  void BeginPoll() { pollers_.fetch_add(1, std::memory_order_seq_cst); }
  void EndPoll() { pollers_.fetch_sub(1, std::memory_order_seq_cst); }
  // Wakes another worker for the rest. For a worker that has taken news and does something long.
  void PassOn() {
    if (size() > 0 && parking_.has_sleepers()) parking_.Wake(1);
  }
  // For a thread that has polled and looks no more: somebody else takes the rest, perhaps a worker
  // that has found nothing and is about to sleep.
  void Leave() {
    if (size() > 0) parking_.Wake(1);
  }

  // Returns nullptr when there are none. Tests use `place` to take news in another order.
  LaneNews* Take(size_t place = 0);

 private:
  Parking& parking_;
  SpinLock lock_;
  // All but the size are guarded by the lock.
  std::atomic<size_t> size_{0};
  std::atomic<uint32_t> pollers_{0};
  LaneNews* first_ = nullptr;
  LaneNews* last_ = nullptr;
};

}  // namespace pto::engine
