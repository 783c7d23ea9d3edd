#include "runtime/engine/signal/deadline_heap.h"

namespace pto::engine {

void DeadlineHeap::Add(Deadline& deadline, int64_t at_ns) {
  entries_.emplace_back();
  SiftUp(entries_.size() - 1, {at_ns, next_number_++, &deadline});
}

void DeadlineHeap::Remove(Deadline& deadline) {
  const size_t place = deadline.place_;
  if (place == Deadline::kNowhere) return;
  deadline.place_ = Deadline::kNowhere;
  const Entry last = entries_.back();
  entries_.pop_back();
  if (place == entries_.size()) return;
  if (place > 0 && last < entries_[(place - 1) / 2]) {
    SiftUp(place, last);
  } else {
    SiftDown(place, last);
  }
}

void DeadlineHeap::Clear() {
  for (const Entry& entry : entries_) entry.deadline->place_ = Deadline::kNowhere;
  entries_.clear();
}

void DeadlineHeap::SiftUp(size_t place, const Entry& entry) {
  while (place > 0) {
    const size_t parent = (place - 1) / 2;
    if (!(entry < entries_[parent])) break;
    Put(place, entries_[parent]);
    place = parent;
  }
  Put(place, entry);
}

void DeadlineHeap::SiftDown(size_t place, const Entry& entry) {
  const size_t count = entries_.size();
  while (2 * place + 1 < count) {
    size_t child = 2 * place + 1;
    if (child + 1 < count && entries_[child + 1] < entries_[child]) ++child;
    if (!(entries_[child] < entry)) break;
    Put(place, entries_[child]);
    place = child;
  }
  Put(place, entry);
}

}  // namespace pto::engine
