#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "runtime/base/alarm.h"
#include "runtime/base/clock.h"
#include "runtime/base/mutex.h"
#include "runtime/base/timer.h"
#include "runtime/engine/lane/lane.h"
#include "runtime/engine/lane/lane_call_handler.h"
#include "runtime/engine/lane/lane_news_queue.h"
#include "runtime/engine/lane/lane_reports.h"
#include "runtime/engine/lane/post_table.h"
#include "runtime/engine/run/block_ticket.h"
#include "runtime/engine/run/long_tasks.h"
#include "runtime/engine/run/run.h"

namespace pto::engine {

// The engine's end of a lane: posts blocks, cancels them, and kills the lane if it does not answer
// in time. Made by Engine::AddLane. Kernels that run on the lane own it together (Kernel::lane), so
// it lives as long as an image can post to it. Thread-safe.
class LanePort : public std::enable_shared_from_this<LanePort> {
 public:
  struct Setting {
    LaneNewsQueue* news = nullptr;
    const Clock* clock = nullptr;
    TimerQueue* timers = nullptr;
    LaneCallHandler* calls = nullptr;
    int64_t grace_ns = 0;  // how long a cancelled post may take to end
    // Looks how long posts run, `limit_ns` after the first one; nullptr: nobody does.
    Alarm* limit = nullptr;
    int64_t limit_ns = 0;
    size_t capacity = 0;             // how many posts are expected at most
    std::vector<uint32_t> clusters;  // of each chip
  };

  // A block that is to be posted.
  struct Outgoing {
    LanePort* port = nullptr;
    BlockTicket ticket;
    LongTask* long_task = nullptr;
    int64_t start_ns = 0;
    // Why it was not posted. The caller ends such blocks.
    enum class Refusal { kNone, kStopped, kLate, kLost };
    Refusal refusal = Refusal::kNone;
  };

  static std::shared_ptr<LanePort> Open(std::shared_ptr<Lane> lane, const Setting& setting);
  ~LanePort();
  LanePort(const LanePort&) = delete;
  LanePort& operator=(const LanePort&) = delete;

  const std::string& name() const { return name_; }

  // Posts the blocks, with one call of the lane, or refuses them. The blocks of a gang are posted
  // together, or all are refused.
  void Post(absl::Span<Outgoing> blocks);
  // Cancels the posts of a run that was stopped; with `late_only`, those of its tasks whose
  // deadline has passed. The stop or the deadline must be visible before this call.
  void Cancel(const Run& run, bool late_only);

  // A run has ended. It had posts here, or could have had some.
  void EndRun(const Run& run);
  // Answers a call of a post. The post may have ended, and this may be the last use of the port.
  static void Answer(std::shared_ptr<LanePort> port, const LaneAnswer& answer) {
    port->lane_->Resume(answer);
  }
  PostTable& table() { return reports_->table(); }

  // Whether posts are under way that end so soon that it pays to look for their ends.
  bool WorthPolling() const;
  // Handles reports of the lane on this thread until `enough` returns true. Returns at once if the
  // lane cannot do that, or another thread does.
  void Poll(absl::FunctionRef<bool()> enough);
  // Passes on what has ended.
  void Push(const NewsList& news) { reports_->Push(news); }

  // Kills the lane, unless that was done, and ends all its posts as lost. `what` says why and
  // `running` which post is the cause; 0: none.
  void Lose(absl::string_view what, PostId running);
  // The lane has reported its own death.
  static void Bury(LaneDeath& death);
  bool lost() const { return state_.load(std::memory_order_acquire) != State::kOpen; }
  // Why it was lost.
  std::string why_lost() const;

  // A worker has handled the end of a post.
  void Recycle(PostSlot& slot) { reports_->table().Recycle(slot); }

  // The engine ends.
  void Close() { reports_->Close(); }
  PostTable::Counts counts() const { return reports_->table().counts(); }

 private:
  enum class State { kOpen, kLosing, kLost };

  LanePort(std::shared_ptr<Lane> lane, const Setting& setting);

  // Whether the block must not start, and why.
  Outgoing::Refusal Check(const Outgoing& block) const;
  void Fill(const Outgoing& block, PostSlot& slot) ABSL_EXCLUSIVE_LOCKS_REQUIRED(calls_);
  // Loses the lane if a cancelled post has had its grace. Returns when to look again; 0: no need.
  int64_t CheckGrace();

  const std::shared_ptr<Lane> lane_;
  const std::string name_;
  const Clock& clock_;
  const int64_t grace_ns_;
  const std::vector<uint32_t> clusters_;
  Alarm* const limit_;
  const int64_t limit_ns_;
  const std::shared_ptr<LaneReports> reports_;
  std::atomic<State> state_{State::kOpen};

  mutable Mutex why_mutex_;
  std::string why_lost_ ABSL_GUARDED_BY(why_mutex_);

  // Held during each call of the lane. So a post reaches the lane before its cancellation, and
  // nothing reaches it after Kill.
  Mutex calls_;
  std::vector<PostSlot*> slots_ ABSL_GUARDED_BY(calls_);
  std::vector<const LanePost*> posts_ ABSL_GUARDED_BY(calls_);
  std::vector<PostId> ids_ ABSL_GUARDED_BY(calls_);
  // The numbers of the runs that have had posts here and have not ended.
  absl::flat_hash_map<const Run*, uint64_t> runs_ ABSL_GUARDED_BY(calls_);
  uint64_t last_run_ ABSL_GUARDED_BY(calls_) = 0;

  // Last, so that it is destroyed before the members that it uses.
  Alarm grace_;
};

}  // namespace pto::engine
