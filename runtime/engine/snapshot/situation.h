#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "runtime/engine/snapshot/engine_now.h"

namespace pto::engine {

// A task and the index of its run in EngineNow.
struct TaskPlace {
  size_t run = 0;
  uint32_t task = 0;
  bool operator==(const TaskPlace& other) const { return run == other.run && task == other.task; }
};

// A task that can notify a word, or could have before it ended.
struct Sender {
  TaskPlace place;
  // What a `notify` task does with the word. 0 for a kernel, which may do anything.
  uint32_t op = 0;  // pto_notify_op
  int64_t value = 0;
};

// The tasks of an engine snapshot in the form that Continuation needs: the progress of each task,
// what it waits for, and which tasks can notify which word. The EngineNow must outlive it.
// Immutable, so any thread may read it.
class Situation {
 public:
  static constexpr uint32_t kNone = 0xffffffff;

  enum class State : uint8_t {
    kEnded,
    kUnknown,  // it may have ended, run or be about to start
    kWaiting,  // it has started and waits: see RunNow::waiting
    kReady,    // it waits for cores
    kBehind,   // it waits for other tasks or the beginning of its run
  };

  // A signal.
  struct Word {
    const void* address = nullptr;
    uint32_t dtype = 0;
    int64_t have = 0;
    std::vector<Sender> senders;
  };

  // A wait for a word, of a waiting task or of a `wait` task that has not started.
  struct Wait {
    TaskPlace place;
    uint32_t word = kNone;  // its number; kNone: unknown, or not a word
    uint32_t compare = 0;   // pto_compare
    int64_t value = 0;
    bool barrier = false;  // for other blocks of its task
    bool timed = false;    // it has its own deadline
    const WaitNote* note = nullptr;
  };
  // A waiting task, or a `wait` task that has not started.
  struct Waiter {
    TaskPlace place;
    const WaitingTask* now = nullptr;  // nullptr: not started
    uint32_t first_wait = 0;           // in waits()
    uint32_t wait_count = 0;
  };

  // Runs that end together: the segments of an open run, or a single run.
  struct Whole {
    std::vector<size_t> runs;
    bool open = false;
    bool held_back = false;
    bool next_waits = false;
    bool has_deadline = false;
    // The runs that must go before the tasks that wait for their turn.
    std::vector<size_t> next_behind;
  };

  explicit Situation(const EngineNow& now);

  const EngineNow& now() const { return now_; }
  // Maps all tasks of all runs to numbers.
  size_t IndexOf(const TaskPlace& place) const { return first_[place.run] + place.task; }
  size_t task_count() const { return first_.back(); }
  State state(const TaskPlace& place) const { return states_[IndexOf(place)]; }
  // For a task behind others: how many of those have not ended.
  uint32_t left_before(size_t index) const { return left_before_[index]; }
  // Whether a task that is behind others, or ready, can only fail or be skipped.
  bool poisoned(const TaskPlace& place) const {
    const std::vector<bool>& poisoned = now_.runs[place.run].poisoned;
    return !poisoned.empty() && poisoned[place.task];
  }
  // Whether the task may run out of time, now or after it has started.
  bool timed(const TaskPlace& place) const;
  // Whether it has a deadline for the task as a whole.
  bool task_timed(const TaskPlace& place) const;
  // Tasks of other runs that depend on this one.
  absl::Span<const TaskPlace> LinkedAfter(size_t index) const;

  absl::Span<const Word> words() const { return words_; }
  absl::Span<const Wait> waits() const { return waits_; }
  absl::Span<const Waiter> waiters() const { return waiters_; }
  // The words that the task can notify, by number, and how.
  struct Notice {
    uint32_t word = kNone;
    uint32_t op = 0;
    int64_t value = 0;
  };
  absl::Span<const Notice> NoticesOf(size_t index) const;
  // The number of the waiter; kNone if the task does not wait.
  uint32_t WaiterOf(size_t index) const;

  absl::Span<const Whole> wholes() const { return wholes_; }
  size_t WholeOf(size_t run) const { return whole_of_[run]; }

  // Whether another task of the same account, whose code runs on a lane, has not ended.
  bool HasLaneTaskBeside(const TaskPlace& place) const;

  // The slot of the run that contains the address; nullptr: none.
  const SlotNow* SlotOf(size_t run, const void* address) const;

 private:
  void FindWholes();
  void FindStates(size_t run);
  // Marks all tasks behind the task, in this and other runs.
  void SpreadFrom(const TaskPlace& place, State state);
  void FindLeftBefore();
  void FindWords();
  uint32_t AddWord(size_t run, const void* address);
  void FindWaits();
  void FindSenders(size_t run);
  void FindLaneTasks(size_t run);
  void AddSender(uint32_t word, const Sender& sender);
  // The address of a tensor of the run, if it is in memory with words; otherwise nullptr.
  const std::byte* AddressOf(size_t run, uint32_t tensor) const;

  const EngineNow& now_;
  std::vector<size_t> first_;  // index of the first task of each run, and the end
  std::vector<State> states_;
  std::vector<uint32_t> left_before_;
  absl::flat_hash_map<size_t, std::vector<TaskPlace>> linked_after_;
  std::vector<Word> words_;  // ascending addresses
  absl::flat_hash_map<const void*, uint32_t> word_by_address_;
  std::vector<Wait> waits_;
  std::vector<Waiter> waiters_;
  absl::flat_hash_map<size_t, uint32_t> waiter_of_;
  absl::flat_hash_map<size_t, std::vector<Notice>> notices_;
  std::vector<Whole> wholes_;
  std::vector<size_t> whole_of_;
  // Of each account up to two tasks on lanes that have not ended.
  absl::flat_hash_map<const Account*, std::vector<TaskPlace>> lane_tasks_;
};

}  // namespace pto::engine
