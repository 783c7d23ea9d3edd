#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "runtime/base/alarm.h"
#include "runtime/base/mutex.h"
#include "runtime/base/timer.h"
#include "runtime/engine/exec/fiber_pool.h"
#include "runtime/engine/exec/pulse.h"
#include "runtime/engine/exec/services.h"
#include "runtime/engine/exec/worker.h"
#include "runtime/engine/queue/scheduler.h"
#include "runtime/engine/run/run.h"

namespace pto::engine {

// The executor threads of an engine, and spare ones for when kernels hold all of them.
//
// While threads work, an alarm looks at them in intervals of the patience. A thread that has not
// decided anything since the last look is held: the same call of a kernel goes on. When all
// executors are held, a spare thread is hired, which waits for tasks that the held ones should
// take; when it is held too, another one. Spares are there for others: on a chip where a thread is
// held they take only tasks of accounts that hold none, and all chips together share the spares.
// They leave when as many threads are free as there are executors.
//
// So short kernels never lead to more threads than executors, and an engine without work has no
// timer. Thread-safe.
//
// A block that waits on a fiber goes on with the thread where it waits. While a kernel holds that
// executor, any other thread takes the block over.
class Crew final : private ChipGate, private Strays {
 public:
  struct Options {
    uint32_t executors = 0;
    uint32_t max_spares = 0;
    // The time between two looks; 0: nobody looks.
    int64_t patience_ns = 0;
    // How long one call of a kernel may take, if its task has no limit of its own; 0: any time.
    int64_t call_limit_ns = 0;
    // Those of the runs that have not ended.
    std::function<std::vector<std::shared_ptr<Run>>(absl::Span<const Run* const>)> find_runs;
    // A call of this task has taken too long.
    std::function<void(Run& run, uint32_t task)> end_call;
    // Threads have become, or are no longer, stuck.
    std::function<void(bool stuck)> on_stuck;
  };

  // What the threads do.
  struct Use {
    uint32_t executors = 0;
    uint32_t spares = 0;
    uint32_t held = 0;     // of both
    uint32_t stopped = 0;  // held by runs that were told to stop
  };

  // `timers` may be nullptr: then nobody looks.
  Crew(Services& services, TimerQueue* timers, Options options);
  ~Crew();
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  // Starts the executors.
  void Start();
  // Ends the threads and waits for them. No kernel may run any more, and no run begin.
  void Stop();

  uint32_t executors() const { return static_cast<uint32_t>(members_.size()); }
  // Whether no thread is left for new runs: all are held, no spare can be hired, and either tasks
  // wait for one, or all of them are in kernels of stopped runs. Until one of them is free.
  bool stuck() const { return stuck_.load(std::memory_order_acquire); }
  // As of the last look.
  Use use() const;

  // A thread that is no executor but helps with runs. Its calls are limited too.
  Pulse& helper() { return helper_.pulse; }
  void HelperRises() {
    helper_.pulse.Rise();
    Watch();
  }

 private:
  // An alarm with nothing to look at rings so often before it stops: to arm it takes longer.
  static constexpr uint32_t kQuietLooks = 10;

  struct Member {
    Pulse pulse;
    std::thread thread;
    // Made by the thread, and shown when it is there.
    std::unique_ptr<FiberPool> fibers;
    std::atomic<FiberPool*> shown_fibers{nullptr};
    std::atomic<bool> left{false};      // the thread is about to end
    std::atomic<uint64_t> seen{0};      // beats at the last look
    std::atomic<bool> was_held{false};  // at the last look
    int64_t held_ns = 0;                // since so long the same call goes on, at least
    bool told = false;                  // that it takes too long
    bool held() const { return held_ns > 0; }
  };
  // A member that is held, and by what.
  struct Holder {
    Member* member = nullptr;
    uint32_t chip = 0;
    uint32_t task = 0;
    const Run* seen = nullptr;
    std::shared_ptr<Run> run;  // nullptr: unknown
  };

  void Loop(Member& self, uint32_t number, bool spare);
  // Has somebody look, if nobody does.
  void Watch() {
    if (!alarm_.armed()) alarm_.Arm(services_.clock().NowNanos() + options_.patience_ns);
  }
  // Which tasks of a chip spares may take while all executors are held.
  enum class Access : uint8_t {
    kAll,     // no thread is held there
    kOthers,  // those of accounts that hold none
    kNone     // too many threads are held there
  };
  // Whether a spare may take a task of the chip now.
  bool IsOpen(uint32_t chip) const override;
  FiberBlock* TakeStray(FiberPool& to) override;
  // Whether it was held at the last look and has not moved since.
  static bool IsHeld(const Member& member) {
    return member.was_held.load(std::memory_order_relaxed) && member.pulse.busy() &&
           member.pulse.beats() == member.seen.load(std::memory_order_relaxed);
  }
  // Whether one spare is too many, and this one may leave.
  bool MayLeave(Member& self);

  // ---- for the alarm
  int64_t Look();
  int64_t LookLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(look_mutex_);
  // Notes whether it is held. Returns whether it works.
  static bool Note(Member& member, int64_t passed_ns);
  void JoinThoseWhoLeft() ABSL_EXCLUSIVE_LOCKS_REQUIRED(look_mutex_);
  std::vector<Holder> FindHolders() ABSL_EXCLUSIVE_LOCKS_REQUIRED(look_mutex_);
  void EndLongCalls(absl::Span<const Holder> holders);
  void DecideAccess(absl::Span<const Holder> holders) ABSL_EXCLUSIVE_LOCKS_REQUIRED(look_mutex_);
  // Whether tasks that a spare may take only wait for a thread.
  bool TasksWait();
  // Tells threads of blocks that can go on while executors are held.
  void FindStrays();
  // Returns whether there is one more.
  bool Hire() ABSL_EXCLUSIVE_LOCKS_REQUIRED(look_mutex_);
  void LetGo(uint32_t held) ABSL_EXCLUSIVE_LOCKS_REQUIRED(look_mutex_);
  void Tell(bool all_held, bool hired, absl::Span<const Holder> holders)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(look_mutex_);

  Services& services_;
  const Options options_;
  std::vector<std::unique_ptr<Member>> members_;  // the executors; fixed
  Member helper_;
  std::atomic<bool> stopping_{false};
  std::atomic<bool> stuck_{false};
  std::vector<std::atomic<Access>> access_;  // by chip
  mutable Mutex accounts_mutex_;
  // Of runs that hold threads; only compared.
  std::vector<const Account*> accounts_ ABSL_GUARDED_BY(accounts_mutex_);
  // How many spares may leave.
  std::atomic<int32_t> leaving_{0};
  std::atomic<uint32_t> spare_count_{0};
  std::atomic<uint32_t> held_count_{0};
  std::atomic<uint32_t> stopped_count_{0};

  // Held during a look.
  Mutex look_mutex_;
  std::vector<std::unique_ptr<Member>> spares_ ABSL_GUARDED_BY(look_mutex_);
  uint32_t spares_ever_ ABSL_GUARDED_BY(look_mutex_) = 0;
  int64_t last_look_ns_ ABSL_GUARDED_BY(look_mutex_) = 0;
  uint32_t quiet_looks_ ABSL_GUARDED_BY(look_mutex_) = 0;
  uint32_t lacking_looks_ ABSL_GUARDED_BY(look_mutex_) = 0;
  // Last, so that it ends first.
  Alarm alarm_;
};

}  // namespace pto::engine
