#include "runtime/engine/lane/post_table.h"

#include <utility>

#include "runtime/base/log.h"

namespace pto::engine {

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
  }
  counts_.posted += slots.size();
  counts_.outstanding += slots.size();
}

PostSlot* PostTable::Find(PostId id) const {
  const size_t index = id & kIndexMask;
  if (index >= slots_.size()) return nullptr;
  PostSlot& slot = *slots_[index];
  return slot.post.id == id && slot.state_ == PostSlot::State::kPosted ? &slot : nullptr;
}

void PostTable::Answer(absl::Span<LaneResult> results, NewsList* ended) {
  SpinLockHolder lock(lock_);
  for (LaneResult& result : results) {
    PostSlot* const slot = Find(result.id);
    if (slot == nullptr) {
      ++counts_.ignored;
      continue;
    }
    slot->state_ = PostSlot::State::kEnded;
    slot->end = result.status.ok() ? PostSlot::End::kDone : PostSlot::End::kFailed;
    slot->status = std::move(result.status);
    const bool in_range = result.block >= slot->post.block && result.block < slot->post.block_end;
    slot->failed_block = in_range ? result.block : slot->post.block;
    ++counts_.answered;
    ended->Add(*slot);
  }
}

void PostTable::LoseAll(NewsList* ended) {
  SpinLockHolder lock(lock_);
  for (const std::unique_ptr<PostSlot>& slot : slots_) {
    if (slot->state_ != PostSlot::State::kPosted) continue;
    slot->state_ = PostSlot::State::kEnded;
    slot->end = PostSlot::End::kLost;
    slot->failed_block = slot->post.block;
    ++counts_.lost;
    ended->Add(*slot);
  }
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
