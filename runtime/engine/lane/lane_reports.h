#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "runtime/base/mutex.h"
#include "runtime/engine/lane/lane.h"
#include "runtime/engine/lane/lane_call_handler.h"
#include "runtime/engine/lane/lane_news_queue.h"
#include "runtime/engine/lane/post_table.h"

namespace pto::engine {

class LanePort;

// That a lane has died.
struct LaneDeath final : public LaneNews {
  LaneDeath() : LaneNews(Kind::kDeath) {}
  std::shared_ptr<LanePort> port;  // set while it is in the queue
  std::string what;
  PostId running = 0;
};

// Where a lane reports to the engine. Shared by both, so that a lane may report at any time: what
// comes too late is ignored and counted. Thread-safe; the calls for the lane return at once.
class LaneReports {
 public:
  // ---- for the lane
  // The posts have ended. One call for many wakes at most one thread. Moves the status of each.
  void Complete(absl::Span<LaneResult> results);
  void Complete(PostId id, absl::Status status) {
    LaneResult result{id, std::move(status)};
    Complete(absl::MakeSpan(&result, 1));
  }
  // A kernel of a post has made a call, which the engine answers with Lane::Resume. A post has one
  // call at a time. A call for a post that is not there, or in a call, is ignored: returns false.
  bool Call(const LaneCall& call);
  // The lane is dead, and runs nothing any more. `what` says why, for example the signal that has
  // killed a process. `running` is the post that ran then, if one is known to be the cause.
  void ReportDeath(absl::string_view what, PostId running = 0);

  // ---- for the engine
  LaneReports(LaneNewsQueue& queue, LaneCallHandler& calls, size_t capacity)
      : table_(capacity), calls_(calls), queue_(&queue) {}
  LaneReports(const LaneReports&) = delete;
  LaneReports& operator=(const LaneReports&) = delete;
  PostTable& table() { return table_; }
  void SetPort(std::weak_ptr<LanePort> port) {
    MutexLock lock(mutex_);
    port_ = std::move(port);
  }
  // Ends the waits of posts that have ended, and passes all that has ended to the workers.
  void Pass(const PostTable::Ended& ended);
  // Passes news to the workers.
  void Push(const NewsList& news);
  // The engine ends. Waits for calls of other threads; everything that comes later is ignored.
  void Close() {
    MutexLock lock(mutex_);
    queue_ = nullptr;
  }

 private:
  PostTable table_;
  LaneCallHandler& calls_;  // lives while there is a post
  // Held while the queue is used, which ends with the engine.
  Mutex mutex_;
  LaneNewsQueue* queue_ ABSL_GUARDED_BY(mutex_);
  std::weak_ptr<LanePort> port_ ABSL_GUARDED_BY(mutex_);
  bool died_ ABSL_GUARDED_BY(mutex_) = false;
  LaneDeath death_;  // written once, before it is in the queue
};

}  // namespace pto::engine
