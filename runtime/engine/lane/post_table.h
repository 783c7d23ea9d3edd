#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "runtime/base/spin_lock.h"
#include "runtime/engine/lane/lane.h"
#include "runtime/engine/lane/lane_news_queue.h"
#include "runtime/engine/run/block_ticket.h"
#include "runtime/engine/run/long_tasks.h"

namespace pto::engine {

class LanePort;

// A post, and what the engine knows of it. Reused for later posts, with another id.
struct PostSlot final : public LaneNews {
  PostSlot() : LaneNews(Kind::kPost) {}

  LanePost post;
  LanePort* port = nullptr;
  BlockTicket ticket;
  LongTask* long_task = nullptr;  // nullptr: the task has none
  int64_t start_ns = 0;
  uint64_t start_ticks = 0;

  // Set when the post ends.
  enum class End { kDone, kFailed, kLost };
  End end = End::kDone;
  absl::Status status;
  uint32_t failed_block = 0;

 private:
  friend class PostTable;
  enum class State { kFree, kPosted, kEnded };
  State state_ = State::kFree;  // guarded by the lock of the table
  int64_t cancelled_ns_ = 0;    // 0: not cancelled; guarded by it, too
};

// The posts of one lane that have not been handled. Thread-safe.
class PostTable {
 public:
  struct Counts {
    uint64_t posted = 0;
    uint64_t answered = 0;
    uint64_t lost = 0;     // with the lane
    uint64_t ignored = 0;  // answers that are late, given twice, or for no post
    // Posted, but not answered, or answered, but not handled by a worker.
    uint64_t outstanding = 0;
  };

  // No slot is allocated before it is needed. `capacity`: how many are expected at most.
  explicit PostTable(size_t capacity) { slots_.reserve(capacity); }
  PostTable(const PostTable&) = delete;
  PostTable& operator=(const PostTable&) = delete;

  // Returns a free slot, with a new id. For one thread at a time.
  PostSlot& Take();
  // From now on the slots can end.
  void Begin(absl::Span<PostSlot* const> slots);
  // Ends the posts that the results name, and adds them to `ended`. Ignores and counts all others.
  void Answer(absl::Span<LaneResult> results, NewsList* ended);
  // Ends all posts as lost. Later answers are ignored.
  void LoseAll(NewsList* ended);
  // Takes back a slot of a post that has ended.
  void Recycle(PostSlot& slot);

  // Marks the posts for which `select` is true, and that are not marked yet, as cancelled. Adds
  // their ids to `ids`.
  void Cancel(absl::FunctionRef<bool(const PostSlot&)> select, int64_t now_ns,
              std::vector<PostId>* ids);
  // The post that was cancelled first and has no answer, and when that was. Returns false if there
  // is none.
  bool FirstCancelled(PostId* id, int64_t* cancelled_ns);
  // Calls `use` for the post, if it has not ended.
  void Visit(PostId id, absl::FunctionRef<void(const PostSlot&)> use);

  void Ignore(uint64_t results);
  Counts counts();

 private:
  // An id has the index of its slot in the low bits, and how often the slot was used above.
  static constexpr int kIndexBits = 24;
  static constexpr PostId kIndexMask = (PostId{1} << kIndexBits) - 1;

  // Returns nullptr if the id is not that of a post that can end. With the lock.
  PostSlot* Find(PostId id) const;

  SpinLock lock_;
  // The lock guards all of this, and the state of each slot.
  std::vector<std::unique_ptr<PostSlot>> slots_;
  std::vector<PostSlot*> free_;
  Counts counts_;
};

}  // namespace pto::engine
