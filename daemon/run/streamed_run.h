#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/optional.h"
#include "daemon/chip/chip_leases.h"
#include "daemon/domain/domain_uses.h"
#include "daemon/domain/session_buffer.h"
#include "daemon/quota/task_budget.h"
#include "daemon/run/run_entry.h"
#include "daemon/turn/segment_turn.h"
#include "runtime/base/timer.h"
#include "runtime/engine/open_run.h"
#include "runtime/engine/run/completions.h"
#include "runtime/engine/run/run_deadlines.h"

namespace pto::daemon {

// An open run: its tasks come in segments while the first ones run already. Each segment takes its
// place among the session's runs when it comes. While one waits for its turn no other is taken,
// so that segments begin in their order; leases of its chips wait for it, as for a queued run.
// Append and Close are called by one thread at a time, and only when there is room; the rest is
// thread-safe.
class StreamedRun final : public RunEntry, public engine::OpenRunObserver {
 public:
  struct Parts {
    engine::OpenRun::Options run;  // without the observer
    std::shared_ptr<TaskBudget> budget;
    TimerQueue* timers = nullptr;
    // As in RunSpec.
    int64_t timeout_ns = 0;
    int64_t queue_timeout_ns = 0;
  };

  StreamedRun(Options&& options, Parts&& parts);

  // Once, before others can see it.
  void Prepare();
  // Tells that it is there, and sets its deadlines. Once, before its first segment.
  void Begin();
  // Takes a segment. What is wrong with its buffers is an error, and the segment is not taken.
  absl::Status Append(engine::GraphSegment graph);
  // No more segments come.
  void Close();

  // Returns true when a segment can be taken, or when the run has ended. Else `on_room` is called
  // once when that may be so: the budget has room again or no task of the run is live, so that
  // no run waits for room that only others can make.
  bool AwaitRoom(std::function<void()> on_room);

  // All tasks below this one have ended well.
  uint32_t ended_before() const { return run_->ended_before(); }
  // Tasks that are remembered because tasks of their segments failed.
  uint64_t failed_segment_tasks() const { return run_->failed_segment_tasks(); }

  RunStatus Status() const override;
  using Stoppable::Stop;
  void Stop(engine::RunState as, const absl::Status& error,
            engine::Completions& completions) override;
  void Tell() override;
  void TellStall(RunStall stall, absl::Time time) override;

  std::string name() const override { return record().name(); }
  bool held_back() const override { return held_back_.load(std::memory_order_relaxed); }
  bool next_waits() const override { return next_waits_.load(std::memory_order_relaxed); }
  uint32_t next_waits_for() const override {
    return next_waits_for_.load(std::memory_order_relaxed);
  }
  bool has_deadline() const override {
    return parts_.timeout_ns > 0 ||
           (parts_.queue_timeout_ns > 0 && !started_.load(std::memory_order_relaxed));
  }
  uint64_t order_number() const override { return number(); }
  // Of the segment that waits for its turn.
  uint64_t goes_after(size_t i) const override {
    return goes_after_[i].load(std::memory_order_relaxed);
  }
  void OnStarted() override;
  void OnRecords(size_t waiting) override;
  absl::Status CheckSegment(uint32_t first_task) override;
  void OnSegmentBegins(uint32_t first_task) override;
  bool BeginsLong(uint32_t first_task) override;
  void OnSegmentEnded(uint32_t first_task, const engine::Run& run,
                      engine::Completions& completions) override;
  void RecordEnd(engine::Completions& completions) override;
  void TellEnd() override;
  void AnswerEnd() override;
  void OnFinished(engine::Completions& completions) override;

 protected:
  // Its segments have turns; the run as a whole waits for nobody.
  void OnTurn(engine::Completions&) override {}
  void OnPassedLate() override {}

 private:
  struct Segment {
    std::shared_ptr<SegmentTurn> turn;
    std::vector<std::shared_ptr<SessionBuffer>> buffers;
    std::shared_ptr<const DomainUses> domains;  // nullptr when it uses none
    std::vector<DomainRanks> domain_ranks;
    std::shared_ptr<const engine::GraphImage> image;
    HostCharge charge;  // for the image
    uint64_t tasks = 0;
    bool claimed = false;  // leases of others have waited for it
  };
  // A segment whose turn has not come.
  struct Waiting {
    engine::GraphSegment graph;
    std::shared_ptr<const engine::RunSlots> slots;
    std::vector<uint64_t> named_scalars;
    int64_t came_ns = 0;  // after the run's acceptance
    // Of its chips, until the engine has accepted it.
    ChipLeases::Claim claim;
  };

  void SetDeadlines();
  void OnSegmentTurn(engine::Completions& completions);
  // Keeps what is told of the segment's tasks.
  void KeepSegment(const Waiting& segment);
  // What the segment is behind; nullptr when none waits any more.
  void ShowTurn(const SegmentTurn* turn);
  // Takes a segment out, if it is there, and lets go of all that it held. `run` is nullptr when it
  // has not begun.
  void EndSegment(uint32_t first_task, const engine::Run* run, engine::Completions& completions);
  // Calls who waits for room.
  void TellRoom();
  // The buffer is in use while a segment of the run uses it, and counts once.
  void Hold(const std::vector<std::shared_ptr<SessionBuffer>>& buffers)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(segment_mutex_);
  void CollectNews(std::vector<LogEntry>* news) ABSL_EXCLUSIVE_LOCKS_REQUIRED(tell_mutex_);
  // With `last` after it, if any.
  void TellNews(absl::optional<LogEntry> last = absl::nullopt);
  absl::Time TimeOf(int64_t ns) const {
    return record().create_time + absl::Nanoseconds(ns - run_->accepted_ns());
  }

  const Parts parts_;
  std::shared_ptr<engine::OpenRun> run_;  // set by Prepare
  // For those who look without locks: session or client has so many live tasks that no segment is
  // taken; the numbers of the runs that a segment waits for, and the first task of the segment of
  // this run that it waits for; whether one waits at all.
  std::atomic<bool> held_back_{false};
  std::array<std::atomic<uint64_t>, RunTurn::kShownBefore> goes_after_{};
  std::atomic<uint32_t> next_waits_for_{RunTurn::kNoPart};
  std::atomic<bool> next_waits_{false};
  // Whether its first task has started: for those who look without locks.
  std::atomic<bool> started_{false};

  // Held while news goes to the log, so that it keeps its order.
  Mutex tell_mutex_;
  bool told_queued_ ABSL_GUARDED_BY(tell_mutex_) = false;
  bool told_started_ ABSL_GUARDED_BY(tell_mutex_) = false;

  Mutex segment_mutex_;
  std::map<uint32_t, Segment> segments_ ABSL_GUARDED_BY(segment_mutex_);  // by their first tasks
  // Of the first segment that has failed, if it has such domains.
  std::vector<DomainRanks> failed_ranks_ ABSL_GUARDED_BY(segment_mutex_);
  absl::optional<Waiting> waiting_ ABSL_GUARDED_BY(segment_mutex_);
  // A segment waits for its turn, or is being begun.
  bool busy_ ABSL_GUARDED_BY(segment_mutex_) = false;
  uint64_t live_tasks_ ABSL_GUARDED_BY(segment_mutex_) = 0;
  std::map<SessionBuffer*, uint64_t> buffer_uses_ ABSL_GUARDED_BY(segment_mutex_);  // in segments
  std::function<void()> on_room_ ABSL_GUARDED_BY(segment_mutex_);
  bool stopped_ ABSL_GUARDED_BY(segment_mutex_) = false;
  engine::RunDeadlines deadlines_;
};

}  // namespace pto::daemon
