#include "runtime/engine/lane/post_table.h"

#include <algorithm>
#include <utility>

#include "runtime/base/log.h"

namespace pto::engine {
namespace {

// All posts that take longer are equal.
constexpr uint64_t kMostTicks = 1'000'000;

}  // namespace

PostSlot& PostTable::Take() {
  {
    SpinLockHolder lock(lock_);
    if (!free_.empty()) {
      PostSlot* const slot = free_.back();
      free_.pop_back();
      slot->post.id += kIndexMask + 1;
      return *slot;
    }
  }
  auto made = std::make_unique<PostSlot>();
  PostSlot& slot = *made;
  SpinLockHolder lock(lock_);
  PTO_CHECK(slots_.size() <= kIndexMask, "a lane has too many posts");
  slot.post.id = (kIndexMask + 1) | slots_.size();
  slots_.push_back(std::move(made));
  free_.reserve(slots_.capacity());
  return slot;
}

void PostTable::Begin(absl::Span<PostSlot* const> slots) {
  SpinLockHolder lock(lock_);
  for (PostSlot* const slot : slots) {
    slot->state_ = PostSlot::State::kPosted;
    slot->cancelled_ns_ = 0;
    slot->busy_since_ns_ = slot->start_ns;
  }
  open_.store(open_.load(std::memory_order_relaxed) + slots.size(), std::memory_order_relaxed);
  counts_.posted += slots.size();
  counts_.outstanding += slots.size();
}

PostSlot* PostTable::Find(PostId id) const {
  const size_t index = id & kIndexMask;
  if (index >= slots_.size()) return nullptr;
  PostSlot& slot = *slots_[index];
  return slot.post.id == id && slot.state_ == PostSlot::State::kPosted ? &slot : nullptr;
}

void PostTable::End(PostSlot& slot, Ended* ended) {
  slot.state_ = PostSlot::State::kEnded;
  open_.store(open_.load(std::memory_order_relaxed) - 1, std::memory_order_relaxed);
  if (!slot.in_call_) {
    ended->posts.Add(slot);
  } else if (slot.waiter_ != nullptr && slot.waiter_->Claim()) {
    ended->waits.push_back(slot.waiter_);
  }
}

void PostTable::Answer(absl::Span<LaneResult> results, Ended* ended) {
  SpinLockHolder lock(lock_);
  for (LaneResult& result : results) {
    PostSlot* const slot = Find(result.id);
    if (slot == nullptr) {
      ++counts_.ignored;
      continue;
    }
    slot->end = result.status.ok() ? PostSlot::End::kDone : PostSlot::End::kFailed;
    slot->status = std::move(result.status);
    slot->code = result.code;
    // 0: the lane does not know. Otherwise it may say anything.
    if (const uint64_t took = std::min(result.took_ticks, kMostTicks); took != 0) {
      typical_ticks_.store((7 * typical_ticks_.load(std::memory_order_relaxed) + took) / 8,
                           std::memory_order_relaxed);
    }
    const bool in_range = result.block >= slot->post.block && result.block < slot->post.block_end;
    slot->failed_block = in_range ? result.block : slot->post.block;
    ++counts_.answered;
    End(*slot, ended);
  }
}

void PostTable::LoseAll(Ended* ended) {
  SpinLockHolder lock(lock_);
  for (const std::unique_ptr<PostSlot>& slot : slots_) {
    if (slot->state_ != PostSlot::State::kPosted) continue;
    slot->end = PostSlot::End::kLost;
    slot->failed_block = slot->post.block;
    slot->code = 0;
    ++counts_.lost;
    End(*slot, ended);
  }
}

PostSlot* PostTable::BeginCall(PostId id) {
  SpinLockHolder lock(lock_);
  PostSlot* const slot = Find(id);
  if (slot == nullptr || slot->in_call_) {
    ++counts_.ignored;
    return nullptr;
  }
  slot->in_call_ = true;
  ++counts_.calls;
  return slot;
}

bool PostTable::BeginWait(PostSlot& slot, Waiter& waiter) {
  SpinLockHolder lock(lock_);
  if (slot.state_ != PostSlot::State::kPosted) return false;
  slot.waiter_ = &waiter;
  return true;
}

void PostTable::EndWait(PostSlot& slot, int64_t now_ns) {
  SpinLockHolder lock(lock_);
  slot.waiter_ = nullptr;
  slot.busy_since_ns_ = now_ns;
}

void PostTable::EndCall(PostSlot& slot, NewsList* ended) {
  SpinLockHolder lock(lock_);
  slot.in_call_ = false;
  if (slot.state_ == PostSlot::State::kEnded) ended->Add(slot);
}

void PostTable::SetLongTask(PostSlot& slot, LongTask* long_task) {
  SpinLockHolder lock(lock_);
  slot.long_task = long_task;
}

void PostTable::Recycle(PostSlot& slot) {
  SpinLockHolder lock(lock_);
  slot.state_ = PostSlot::State::kFree;
  free_.push_back(&slot);
  --counts_.outstanding;
}

void PostTable::Cancel(absl::FunctionRef<bool(const PostSlot&)> select, int64_t now_ns,
                       std::vector<PostId>* ids) {
  SpinLockHolder lock(lock_);
  for (const std::unique_ptr<PostSlot>& slot : slots_) {
    if (slot->state_ != PostSlot::State::kPosted || slot->cancelled_ns_ != 0 || !select(*slot)) {
      continue;
    }
    slot->cancelled_ns_ = now_ns;
    slot->post.cancelled.store(true, std::memory_order_release);
    ids->push_back(slot->post.id);
  }
}

bool PostTable::FirstCancelled(PostId* id, int64_t* cancelled_ns) {
  SpinLockHolder lock(lock_);
  bool found = false;
  for (const std::unique_ptr<PostSlot>& slot : slots_) {
    if (slot->state_ != PostSlot::State::kPosted || slot->cancelled_ns_ == 0) continue;
    if (found && slot->cancelled_ns_ >= *cancelled_ns) continue;
    found = true;
    *id = slot->post.id;
    *cancelled_ns = slot->cancelled_ns_;
  }
  return found;
}

int64_t PostTable::ForEachLong(int64_t now_ns, int64_t limit_ns,
                               absl::FunctionRef<void(const PostSlot&)> use) {
  int64_t next_ns = 0;
  SpinLockHolder lock(lock_);
  for (const std::unique_ptr<PostSlot>& slot : slots_) {
    if (slot->state_ != PostSlot::State::kPosted || slot->cancelled_ns_ != 0) continue;
    // One that waits may go on at any time from now.
    const int64_t since_ns = slot->waiter_ != nullptr ? now_ns : slot->busy_since_ns_;
    if (now_ns - since_ns >= limit_ns) {
      use(*slot);
    } else if (next_ns == 0 || since_ns + limit_ns < next_ns) {
      next_ns = since_ns + limit_ns;
    }
  }
  return next_ns;
}

void PostTable::Visit(PostId id, absl::FunctionRef<void(const PostSlot&)> use) {
  SpinLockHolder lock(lock_);
  if (const PostSlot* const slot = Find(id)) use(*slot);
}

void PostTable::Ignore(uint64_t results) {
  SpinLockHolder lock(lock_);
  counts_.ignored += results;
}

PostTable::Counts PostTable::counts() {
  SpinLockHolder lock(lock_);
  return counts_;
}

}  // namespace pto::engine
