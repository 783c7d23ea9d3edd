#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "runtime/engine/snapshot/situation.h"

namespace pto::engine {

// One way in which an engine may continue from a snapshot.
//
// Everything happens that can: a task starts when the tasks before it are done and there are cores
// for it, tasks notify, waits that hold end, a run begins when the runs before it have ended. The
// caller chooses which tasks run out of time. One event never prevents another, so the order does
// not matter, with two exceptions, where this assumes the possible:
// - A word may take every value that its senders can produce, in any order.
// - What a kernel will do that has not started is unknown: it may end, and may notify every word
//   that it can reach if it declares that it notifies.
// Waiting gangs do not take cores from other tasks, because reserved cores are lent.
//
// Copyable, to try several ways from one point. The Situation must outlive it. Not thread-safe.
class Continuation {
 public:
  // Which tasks with deadlines run out of time.
  struct Fails {
    // The tasks of `timed` whose bits are set.
    const std::vector<size_t>* timed = nullptr;  // their numbers, ascending
    uint64_t bits = 0;
    // All of them may, and may also end in time: several continuations at once.
    bool all_may = false;
  };

  Continuation(const Situation& situation, Fails fails);

  // Lets everything happen that can.
  void Settle();
  // The deadline of a whole passes: its runs end. With `may`, they may also continue.
  void Stop(size_t whole, bool may);

  // Of runs.
  bool ended(size_t run) const { return run_ended_[run]; }
  bool begun(size_t run) const { return run_begun_[run]; }
  // Whether the runs behind it continue.
  bool passed(size_t run) const { return run_passed_[run]; }
  // Whether the client may send more tasks of the whole.
  bool more_may_come(size_t whole) const;
  // Of tasks, by their numbers.
  bool task_ended(size_t index) const { return (flags_[index] & kEnded) != 0; }
  bool task_started(size_t index) const { return (flags_[index] & kStarted) != 0; }
  // Whether it was ever ready.
  bool task_ready(size_t index) const { return (flags_[index] & kWasReady) != 0; }
  bool task_notified(size_t index) const { return (flags_[index] & kNotified) != 0; }
  // Whether a wait holds at some time, by its number.
  bool holds(size_t wait) const { return holds_[wait]; }

 private:
  enum Flag : uint8_t {
    kEnded = 1,
    kDone = 2,          // ended well
    kFailedBefore = 4,  // a task before it has failed
    kStarted = 8,       // or has been
    kNotified = 16,     // all that it can
    kWasReady = 32,
  };
  struct Step {
    enum Kind : uint8_t { kStart, kDone, kFail } kind;
    TaskPlace place;
  };
  // A summary of what was sent to a word.
  struct Sent {
    bool anything = false;  // by a kernel
    bool has_set = false;
    int64_t least_set = 0, most_set = 0;
    // The sums of the negative and of the positive additions.
    __int128 less = 0, more = 0;
    std::vector<Situation::Notice> notices;
  };
  // For a waiter: the number of waits before it ends, and before it succeeds.
  struct Left {
    uint32_t end = 0;
    uint32_t done = 0;
    bool started = false;
  };
  enum class Failing { kNo, kYes, kMay };

  Failing FailingOf(const TaskPlace& place) const;
  void BeginRun(size_t run);
  void PassIfEnded(size_t run);
  void Start(const TaskPlace& place);
  void StartControl(const TaskPlace& place);
  void RunKernel(const TaskPlace& place);
  void BeginWaiter(uint32_t waiter);
  // A wait of a waiter that has started holds.
  void Hold(uint32_t wait);
  void Check(uint32_t waiter);
  void Done(const TaskPlace& place);
  void Fail(const TaskPlace& place);
  void End(const TaskPlace& place);
  template <typename Use>
  void ForAfter(const TaskPlace& place, Use use);
  void Notify(const TaskPlace& place);
  bool CanHold(const Situation::Wait& wait) const;
  static bool CanBeEqual(const Sent& sent, int64_t base, int64_t value);
  // Whether it holds now and whatever is sent.
  bool AlwaysHolds(const Situation::Wait& wait) const;
  void ReleaseCore(const WaitNote& note);
  void CountCores(uint32_t chip);
  void RetryCores();
  bool HasCores(const TaskPlace& place) const;
  void NextMayBegin(size_t whole);

  const Situation& situation_;
  const EngineNow& now_;
  Fails fails_;
  std::vector<uint8_t> flags_;
  std::vector<uint32_t> left_done_, left_end_;  // tasks before it
  std::vector<bool> run_begun_, run_ended_, run_passed_, run_stopped_;
  std::vector<uint32_t> run_left_;    // tasks that have not ended
  std::vector<uint32_t> run_behind_;  // runs that go first
  std::vector<std::vector<size_t>> behind_run_;
  std::vector<uint32_t> next_behind_;  // by whole
  std::vector<std::vector<size_t>> wholes_behind_run_;
  std::vector<bool> next_begun_;              // by whole
  std::vector<const Account*> any_sent_for_;  // whose signals somebody unknown may send
  std::vector<Sent> sent_;                    // by word
  std::vector<std::vector<uint32_t>> waits_for_word_;
  std::vector<bool> holds_;
  std::vector<Left> left_;  // by waiter
  // By chip and core: blocks that wait and keep it.
  std::vector<std::vector<uint32_t>> kept_;
  std::vector<std::array<uint32_t, 4>> available_;  // by chip and pto_core
  std::vector<TaskPlace> want_cores_;
  bool cores_came_ = false;
  std::vector<Step> steps_;
};

}  // namespace pto::engine
