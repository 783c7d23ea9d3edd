#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_set>
#include <vector>

#include "kernels/pto_kernel.h"

namespace pto::engine::testing {

// A task of a model.
struct ModelTask {
  enum class Kind {
    kPlain,   // a kernel that does nothing
    kSend,    // a kernel that says that it notifies, and sets its word
    kHold,    // a kernel that waits and keeps its cores
    kDefer,   // a kernel that returns; its task ends when the word compares so
    kWait,    // a task without a core that waits
    kNotify,  // a task without a core that notifies
    kJoin,    // nothing
  };
  Kind kind = Kind::kPlain;
  std::vector<uint32_t> after;
  uint32_t word = 0;
  pto_compare compare = PTO_GE;
  int64_t value = 1;
  pto_notify_op op = PTO_ADD;
  int64_t wait_timeout_ns = 0;  // of kWait
  int64_t task_timeout_ns = 0;
  std::vector<uint32_t> chips = {0};  // several: a gang over all of them
  uint32_t blocks = 1;                // on each of them
  bool gang = false;

  bool on_cores() const { return kind <= Kind::kDefer; }
};

struct ModelRun {
  std::vector<ModelTask> tasks;
  // Of an open run: how many tasks come in each segment. Empty: it is an ordinary run.
  std::vector<uint32_t> segments;
  std::vector<size_t> behind;  // runs that go first
  int64_t wait_timeout_ns = 0;
  int64_t task_timeout_ns = 0;
  int64_t timeout_ns = 0;
};

// Some runs and the cores and words that they share.
struct Model {
  std::vector<uint32_t> vector_cores;  // of each chip
  // By word: what a kSend may set it to.
  std::vector<std::vector<int64_t>> word_values;
  std::vector<ModelRun> runs;

  bool Timed(size_t run, uint32_t task) const;
  // A text by which a person can see what it is.
  std::string Describe() const;
};

// How far a model has come.
struct ModelState {
  enum Task : uint8_t {
    kPending,  // tasks before it have not all ended, or its run has not begun
    kReady,    // it can start, cores permitting
    kWaiting,  // it has started and waits
    kDone,
    kFailed,  // or skipped
  };
  std::vector<std::vector<Task>> tasks;
  // By run, task and place among the task's chips: blocks of kHold that have started and wait.
  std::vector<std::vector<std::vector<uint32_t>>> blocks;
  // Whether a block of the task has failed, so that it can only fail.
  std::vector<std::vector<bool>> doomed;
  std::vector<int64_t> words;
  std::vector<bool> begun;
  std::vector<bool> stopped;

  // Cores of a chip that no block keeps.
  uint32_t FreeCores(const Model& model, uint32_t chip) const;
  bool Ended(size_t run, uint32_t first, uint32_t count) const;
  bool Ended(size_t run) const { return Ended(run, 0, static_cast<uint32_t>(tasks[run].size())); }
};

// Follows every schedule of a model from one state on, one event after the other, and so finds out
// what can happen: the truth that Diagnosis is compared with. It shares no code with it.
//
// A kernel that has not started may end at once, whatever it will do: nobody but the kernel knows.
// A time that is up may be up at any moment from now on.
class SignalModel {
 public:
  SignalModel(const Model& model, const ModelState& state);

  // Whether all schedules were followed; else there were too many.
  bool complete() const { return complete_; }
  // Whether the tasks of the run from `first` on, `count` of them, can all end.
  bool CanEnd(size_t run) const { return runs_end_[run]; }
  bool SegmentCanEnd(size_t run, size_t segment) const { return segments_end_[run][segment]; }
  bool CanNotify(size_t run, uint32_t task) const { return notifies_[run][task]; }
  bool CanStart(size_t run, uint32_t task) const { return starts_[run][task]; }

 private:
  void Visit(ModelState state);
  void Expand(const ModelState& state);
  // What follows without a choice.
  void Normalize(ModelState* state) const;
  void Start(const ModelState& state, size_t run, uint32_t task);
  void Notify(ModelState* state, uint32_t word, pto_notify_op op, int64_t value) const;
  bool Passed(const ModelState& state, size_t run) const;
  bool HasCores(const ModelState& state, const ModelTask& task) const;
  static std::string Key(const ModelState& state);

  const Model& model_;
  bool complete_ = true;
  std::vector<bool> runs_end_;
  std::vector<std::vector<bool>> segments_end_, notifies_, starts_;
  std::unordered_set<std::string> seen_;
  std::vector<ModelState> stack_;
};

}  // namespace pto::engine::testing
