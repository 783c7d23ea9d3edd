#pragma once

#include <atomic>
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
#include "runtime/engine/signal/wait_table.h"

namespace pto::engine {

class LanePort;

// What the engine keeps for a post whose kernel has made calls.
struct PostDetail {
  virtual ~PostDetail() = default;
};

// A post, and what the engine knows of it. Reused for later posts, with another id.
struct PostSlot final : public LaneNews {
  PostSlot() : LaneNews(Kind::kPost) {}

  LanePost post;
  LanePort* port = nullptr;
  BlockTicket ticket;
  LongTask* long_task = nullptr;  // nullptr: the task has none; see PostTable::SetLongTask
  int64_t start_ns = 0;
  uint64_t start_ticks = 0;
  // Used by the call that is under way, and by the worker that handles the end.
  std::unique_ptr<PostDetail> detail;

  // Set when the post ends.
  enum class End { kDone, kFailed, kLost };
  End end = End::kDone;
  absl::Status status;
  uint32_t failed_block = 0;
  int32_t code = 0;  // as in LaneResult

 private:
  friend class PostTable;
  enum class State { kFree, kPosted, kEnded };
  // The lock of the table guards all of this.
  State state_ = State::kFree;
  int64_t cancelled_ns_ = 0;   // 0: not cancelled
  bool in_call_ = false;       // the engine has not answered a call of its kernel
  Waiter* waiter_ = nullptr;   // for which that call waits
  int64_t busy_since_ns_ = 0;  // when its kernel began to run, or its last wait ended
};

// The posts of one lane that have not been handled. Thread-safe.
class PostTable {
 public:
  struct Counts {
    uint64_t posted = 0;
    uint64_t answered = 0;
    uint64_t lost = 0;     // with the lane
    uint64_t calls = 0;    // of kernels
    uint64_t ignored = 0;  // answers and calls that are late, given twice, or for no post
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
  // What the end of posts leads to. A post that ends in the middle of a call is among the ended
  // ones only when the call is over.
  struct Ended {
    NewsList posts;
    std::vector<Waiter*> waits;  // claimed; the caller ends them
  };
  // Ends the posts that the results name. Ignores and counts all others.
  void Answer(absl::Span<LaneResult> results, Ended* ended);
  // Ends all posts as lost. Later answers are ignored.
  void LoseAll(Ended* ended);
  // Takes back a slot of a post that has ended.
  void Recycle(PostSlot& slot);

  // A call of a post begins: the post stays until EndCall. Returns nullptr, and counts the call as
  // ignored, if the post has ended, or if it is in a call.
  PostSlot* BeginCall(PostId id);
  // The call waits. Returns false if the post has ended meanwhile, so that the wait must not last.
  bool BeginWait(PostSlot& slot, Waiter& waiter);
  // The wait is over; before anybody destroys the waiter.
  void EndWait(PostSlot& slot, int64_t now_ns);
  // The call is over. If the post has ended meanwhile, adds it to `ended`; then it may be handled,
  // and its run may end, as soon as that is pushed.
  void EndCall(PostSlot& slot, NewsList* ended);
  // For a call: its task has become a long one.
  void SetLongTask(PostSlot& slot, LongTask* long_task);

  // Marks the posts for which `select` is true, and that are not marked yet, as cancelled. Adds
  // their ids to `ids`.
  void Cancel(absl::FunctionRef<bool(const PostSlot&)> select, int64_t now_ns,
              std::vector<PostId>* ids);
  // The post that was cancelled first and has no answer, and when that was. Returns false if there
  // is none.
  bool FirstCancelled(PostId* id, int64_t* cancelled_ns);
  // Calls `use` for each post whose kernel has run for so long without waiting, unless the post was
  // cancelled. Returns when the next one may have; 0: there is none.
  int64_t ForEachLong(int64_t now_ns, int64_t limit_ns,
                      absl::FunctionRef<void(const PostSlot&)> use);
  // Calls `use` for the post, if it has not ended.
  void Visit(PostId id, absl::FunctionRef<void(const PostSlot&)> use);

  // Whether there are posts without an answer, and how long posts have run lately. May be out of
  // date at once.
  bool has_open() const { return open_.load(std::memory_order_relaxed) > 0; }
  uint64_t typical_ticks() const { return typical_ticks_.load(std::memory_order_relaxed); }

  void Ignore(uint64_t results);
  Counts counts();

 private:
  // An id has the index of its slot in the low bits, and how often the slot was used above.
  static constexpr int kIndexBits = 24;
  static constexpr PostId kIndexMask = (PostId{1} << kIndexBits) - 1;

  // Returns nullptr if the id is not that of a post that can end. With the lock.
  PostSlot* Find(PostId id) const;
  // With the lock.
  void End(PostSlot& slot, Ended* ended);

  SpinLock lock_;
  // The lock guards all of this, and the state of each slot.
  std::vector<std::unique_ptr<PostSlot>> slots_;
  std::vector<PostSlot*> free_;
  Counts counts_;
  std::atomic<uint64_t> open_{0};
  std::atomic<uint64_t> typical_ticks_{0};
};

}  // namespace pto::engine
