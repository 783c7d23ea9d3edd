// Compares what Diagnosis says with the truth, on random models that a seed stands for.

#include "runtime/engine/testing/signal_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "runtime/base/sanitized.h"
#include "runtime/engine/open_run.h"
#include "runtime/engine/snapshot/diagnosis.h"
#include "runtime/engine/testing/explorer.h"
#include "runtime/engine/testing/open_run_testing.h"
#include "runtime/engine/testing/slow_testing.h"
#include "runtime/graph/open_graph.h"

namespace pto::engine {
namespace {

using ::pto::engine::testing::Explore;
using ::pto::engine::testing::KernelBody;
using ::pto::engine::testing::Model;
using ::pto::engine::testing::ModelRun;
using ::pto::engine::testing::ModelState;
using ::pto::engine::testing::ModelTask;
using ::pto::engine::testing::OpenRunWatcher;
using ::pto::engine::testing::SignalModel;
using ::pto::engine::testing::SlowEngine;
using ::pto::engine::testing::SlowKernels;
using ::pto::engine::testing::TestObserver;

using Kind = ModelTask::Kind;

// Sanitizers take ten times as long.
constexpr uint64_t kShare = kSanitized ? 20 : 1;

constexpr int64_t kStall = 30'000'000'000;
constexpr uint32_t kWords = 4;

// What senders do with a word, so that more of them never undo what others did.
enum class WordKind { kUp, kDown, kFlag };

// Makes a model from a seed.
class ModelMaker {
 public:
  // `wild`: words may be set and added to in every way, and compared in every way.
  ModelMaker(uint64_t seed, bool wild) : random_(seed), wild_(wild) {}

  Model Make() {
    Model model;
    const size_t chips = 1 + Choose(2);
    for (size_t i = 0; i < chips; ++i) {
      model.vector_cores.push_back(static_cast<uint32_t>(2 * (1 + Choose(2))));
    }
    for (uint32_t word = 0; word < kWords; ++word) {
      kinds_[word] = static_cast<WordKind>(Choose(3));
      model.word_values.push_back(ValuesOf(word));
    }
    const size_t runs = 1 + Choose(3);
    const size_t most = runs == 1 ? 8 : runs == 2 ? 5 : 4;
    bool has_open = false;
    for (size_t r = 0; r < runs; ++r) {
      ModelRun run;
      const bool open = !has_open && OneOf(5);
      has_open |= open;
      for (size_t before = 0; before < r && !open; ++before) {
        if (model.runs[before].segments.empty() && OneOf(3)) run.behind.push_back(before);
      }
      const auto tasks = static_cast<uint32_t>(1 + Choose(most));
      bool has_gang = false;
      for (uint32_t i = 0; i < tasks; ++i) {
        run.tasks.push_back(MakeTask(model, i));
        if (has_gang) run.tasks.back().gang = false;
        if (!run.tasks.back().gang) run.tasks.back().chips.resize(1);
        has_gang |= run.tasks.back().gang;
      }
      if (OneOf(10)) run.wait_timeout_ns = Time();
      if (OneOf(12)) run.task_timeout_ns = Time();
      if (!open && OneOf(8)) run.timeout_ns = Time();
      for (uint32_t left = open ? tasks : 0; left > 0;) {
        run.segments.push_back(static_cast<uint32_t>(1 + Choose(left)));
        left -= run.segments.back();
      }
      model.runs.push_back(std::move(run));
    }
    Restrict(&model);
    return model;
  }

  size_t Choose(size_t count) { return static_cast<size_t>(random_() % count); }
  bool OneOf(size_t count) { return Choose(count) == 0; }

 private:
  int64_t Time() { return static_cast<int64_t>(1 + Choose(5)) * 1000; }

  std::vector<int64_t> ValuesOf(uint32_t word) const {
    if (wild_) return {-2, -1, 0, 1, 2, 3};
    constexpr int64_t kFar = 50;
    if (kinds_[word] == WordKind::kFlag) return {1};
    return {kinds_[word] == WordKind::kUp ? kFar : -kFar};
  }

  ModelTask MakeTask(const Model& model, uint32_t i) {
    ModelTask task;
    constexpr Kind kKinds[] = {Kind::kPlain,  Kind::kSend,   Kind::kHold,   Kind::kHold,
                               Kind::kDefer,  Kind::kWait,   Kind::kWait,   Kind::kWait,
                               Kind::kNotify, Kind::kNotify, Kind::kNotify, Kind::kJoin};
    task.kind = kKinds[Choose(std::size(kKinds))];
    for (uint32_t before = 0; before < i; ++before) {
      if (OneOf(4)) task.after.push_back(before);
    }
    task.word = static_cast<uint32_t>(Choose(kWords));
    const bool notifies = task.kind == Kind::kNotify;
    if (wild_) {
      task.compare = static_cast<pto_compare>(1 + Choose(6));
      task.op = OneOf(2) ? PTO_SET : PTO_ADD;
      task.value = static_cast<int64_t>(Choose(6)) - 2;
    } else if (kinds_[task.word] == WordKind::kFlag) {
      constexpr pto_compare kCompares[] = {PTO_EQ, PTO_GE};
      task.compare = kCompares[Choose(2)];
      task.op = PTO_SET;
      task.value = 1;
    } else {
      const bool up = kinds_[task.word] == WordKind::kUp;
      task.compare = up ? (OneOf(2) ? PTO_GE : PTO_GT) : (OneOf(2) ? PTO_LE : PTO_LT);
      task.value = static_cast<int64_t>(1 + Choose(notifies ? 2 : 3)) * (up ? 1 : -1);
    }
    if (task.kind == Kind::kWait && OneOf(4)) task.wait_timeout_ns = Time();
    if (!notifies && task.kind != Kind::kJoin && OneOf(12)) task.task_timeout_ns = Time();
    task.chips = {static_cast<uint32_t>(Choose(model.vector_cores.size()))};
    if (task.kind != Kind::kPlain && task.kind != Kind::kHold) return task;
    task.blocks = static_cast<uint32_t>(1 + Choose(3));
    task.gang = task.blocks > 1 && OneOf(2);
    if (task.gang) {
      if (model.vector_cores.size() > 1 && OneOf(2)) task.chips = {0, 1};
      for (const uint32_t chip : task.chips) {
        task.blocks = std::min(task.blocks, model.vector_cores[chip]);
      }
    }
    return task;
  }

  // Whether somebody who always acts before the task notifies its word.
  static bool SentBefore(const Model& model, size_t r, uint32_t i) {
    const ModelRun& run = model.runs[r];
    const uint32_t word = run.tasks[i].word;
    std::vector<bool> before(run.tasks.size());
    before[i] = true;
    for (uint32_t task = i + 1; task-- > 0;) {
      if (!before[task]) continue;
      const Kind kind = run.tasks[task].kind;
      if ((kind == Kind::kNotify || kind == Kind::kSend) && run.tasks[task].word == word) {
        return true;
      }
      for (const uint32_t other : run.tasks[task].after) before[other] = true;
    }
    return AnySends(model, run.behind, word);
  }
  static bool AnySends(const Model& model, const std::vector<size_t>& runs, uint32_t word) {
    for (const size_t r : runs) {
      for (const ModelTask& task : model.runs[r].tasks) {
        if ((task.kind == Kind::kNotify || task.kind == Kind::kSend) && task.word == word) {
          return true;
        }
      }
      if (AnySends(model, model.runs[r].behind, word)) return true;
    }
    return false;
  }

  // So that the times of few tasks matter, and so that a `wait` task that may run out of time may
  // do so: it has not been notified in any case before it starts.
  void Restrict(Model* model) {
    size_t timed = 0;
    for (size_t r = 0; r < model->runs.size(); ++r) {
      ModelRun& run = model->runs[r];
      for (uint32_t i = 0; i < run.tasks.size(); ++i) {
        if (!model->Timed(r, i)) continue;
        const bool keep = wild_ || run.tasks[i].kind != Kind::kWait || !SentBefore(*model, r, i);
        if (keep && timed < 8) {
          ++timed;
          continue;
        }
        run.wait_timeout_ns = run.task_timeout_ns = 0;
        run.tasks[i].wait_timeout_ns = run.tasks[i].task_timeout_ns = 0;
      }
    }
  }

  std::mt19937_64 random_;
  const bool wild_;
  WordKind kinds_[kWords] = {};
};

ScalarInput Integer(int64_t value) {
  ScalarInput scalar;
  scalar.kind = ScalarInput::Kind::kInteger;
  scalar.i64 = value;
  return scalar;
}

// Adds tasks of a model to a graph.
template <typename Graph>
class GraphFiller {
 public:
  GraphFiller(Graph& graph, size_t chips) : graph_(graph) {
    for (size_t chip = 0; chip < chips; ++chip) {
      graph_.AddSlot(chip == 0 ? "words" : absl::StrCat("words", chip));
    }
    layout_ = graph_.AddLayout(PTO_I64, {1}, {}).value();
  }

  void Add(const ModelTask& task, uint32_t number, const KernelBody* body) {
    constexpr const char* kNames[] = {"silent", "plain",  "holds", "silent",
                                      "wait",   "notify", "join"};
    TaskInput input;
    input.kernel = graph_.AddKernel(kNames[static_cast<int>(task.kind)]).value();
    std::vector<std::vector<uint32_t>> args;
    for (const uint32_t chip : task.chips) {
      args.push_back({graph_.AddTensor(chip, layout_, task.word).value()});
    }
    std::vector<ScalarInput> scalars;
    if (task.on_cores()) {
      scalars = {Integer(number), Integer(reinterpret_cast<int64_t>(body))};
    } else if (task.kind == Kind::kWait) {
      scalars = {Integer(task.compare), Integer(task.value), Integer(task.wait_timeout_ns)};
    } else if (task.kind == Kind::kNotify) {
      scalars = {Integer(task.op), Integer(task.value)};
    }
    std::vector<TaskInput::Member> members;
    if (task.chips.size() > 1) {
      for (size_t m = 0; m < task.chips.size(); ++m) members.push_back({task.chips[m], args[m]});
    } else if (task.kind != Kind::kJoin) {
      input.args = args[0];
    }
    input.members = members;
    input.scalars = scalars;
    input.dependencies = task.after;
    if (task.chips.size() == 1) input.chip = task.chips[0];
    input.block_num = task.blocks;
    input.require_sync_start = task.gang;
    input.timeout_ns = task.task_timeout_ns;
    const absl::StatusOr<uint32_t> added = graph_.AddTask(input);
    ASSERT_TRUE(added.ok()) << added.status();
  }

 private:
  Graph& graph_;
  uint32_t layout_ = 0;
};

// A model in an engine that a test moves step by step.
class RunningModel {
 public:
  RunningModel(SlowEngine& node, const Model& model, ModelMaker& random)
      : node_(node), model_(model), random_(random), runs_(model.runs.size()) {
    for (uint32_t word = 0; word < kWords; ++word) *node_.word(word) = 0;
    for (size_t r = 0; r < model_.runs.size(); ++r) Accept(r);
  }
  ~RunningModel() {
    for (Live& live : runs_) {
      if (live.open != nullptr) {
        live.open->Stop(RunState::kCancelled, absl::CancelledError("by the test"));
      } else if (!IsFinal(live.run->state())) {
        node_.Cancel(*live.run);
        node_.engine->Begin(live.run);
      }
    }
    node_.RunAll();
    EXPECT_EQ(node_.engine->active_runs(), 0u);
  }

  // Until nothing can happen any more but that times are up.
  void Settle() {
    do {
      while (node_.engine->Step([this](size_t count) { return random_.Choose(count); })) {
      }
    } while (BeginNext());
  }
  // Lets the next time be up; false when there is none.
  bool Expire() {
    const int64_t next = node_.timers.RunDue();
    if (next < 0) return false;
    node_.clock.Advance(absl::Nanoseconds(next - node_.clock.NowNanos()));
    node_.timers.RunDue();
    return true;
  }

  ModelState State() {
    ModelState state;
    for (size_t r = 0; r < runs_.size(); ++r) {
      Live& live = runs_[r];
      std::vector<ModelState::Task>& tasks = live.tasks;
      if (live.open != nullptr) {
        for (const auto& [task, outcome] : engine::testing::TakeOutcomes(*live.open)) {
          tasks[task] = Ended(outcome);
        }
      } else {
        for (const RecordBlock& block : live.run->TakeRecords()) {
          for (size_t i = 0; i < block.count; ++i) {
            tasks[block.records[i].task] = Ended(block.records[i].outcome);
          }
        }
      }
      const bool ended =
          live.open != nullptr ? IsFinal(live.open->state()) : IsFinal(live.run->state());
      for (uint32_t i = 0; i < tasks.size(); ++i) {
        if (tasks[i] >= ModelState::kDone) continue;
        tasks[i] = ended ? ModelState::kFailed : live.waits(model_.runs[r].tasks, i);
      }
      state.tasks.push_back(tasks);
      state.blocks.push_back(live.active);
      state.doomed.push_back(live.doomed);
      state.begun.push_back(live.begun);
      state.stopped.push_back(false);
    }
    for (uint32_t word = 0; word < kWords; ++word) state.words.push_back(*node_.word(word));
    return state;
  }

  // The engine, with the order of the runs, which the engine does not know.
  EngineNow Look() {
    EngineNow now = node_.engine->Look();
    places_.clear();
    for (const RunNow& run : now.runs) places_.push_back(PlaceOf(run));
    for (size_t i = 0; i < now.runs.size(); ++i) {
      if (!now.runs[i].begun) AddBehind(places_[i].run, &now.runs[i].behind);
    }
    return now;
  }
  // Which run and which of its tasks a run of the engine begins with, and which segment that is.
  struct Place {
    size_t run = 0;
    uint32_t first_task = 0;
    size_t segment = 0;
  };
  const Place& place(size_t i) const { return places_[i]; }

 private:
  struct Live {
    std::shared_ptr<pto::engine::Run> run;  // of an ordinary run
    std::shared_ptr<OpenRun> open;
    KernelBody body;
    bool begun = false;
    std::vector<ModelState::Task> tasks;
    std::vector<std::vector<uint32_t>> active;  // by task and member: blocks that wait
    std::vector<bool> doomed, deferred;

    // Of one that has not ended.
    ModelState::Task waits(const std::vector<ModelTask>& model, uint32_t i) const {
      if (!begun) return ModelState::kPending;
      const ModelTask& task = model[i];
      const bool waits = std::any_of(active[i].begin(), active[i].end(),
                                     [](uint32_t blocks) { return blocks > 0; });
      if (waits || deferred[i]) return ModelState::kWaiting;
      if (task.kind != Kind::kWait) return ModelState::kPending;
      const bool all = std::all_of(task.after.begin(), task.after.end(), [&](uint32_t before) {
        return tasks[before] == ModelState::kDone;
      });
      return all ? ModelState::kWaiting : ModelState::kPending;
    }
  };

  static ModelState::Task Ended(TaskOutcome outcome) {
    return outcome == TaskOutcome::kDone || outcome == TaskOutcome::kPassedOver
               ? ModelState::kDone
               : ModelState::kFailed;
  }

  int32_t Call(size_t r, uint32_t i, const pto_context& context) {
    const ModelTask& task = model_.runs[r].tasks[i];
    Live& live = runs_[r];
    const pto_signal signal = node_.signal(task.word);
    int32_t result = 0;
    switch (task.kind) {
      case Kind::kSend:
        return context.api->notify(&context, &signal, PTO_SET, model_.word_values[task.word][0]);
      case Kind::kHold:
        ++live.active[i][context.member_index];
        result = context.api->wait(&context, &signal, task.compare, task.value, 0);
        --live.active[i][context.member_index];
        if (result != 0) live.doomed[i] = true;
        return result;
      case Kind::kDefer:
        live.deferred[i] = true;
        return context.api->defer(&context, &signal, task.compare, task.value, 0);
      default:
        return 0;
    }
  }

  void Accept(size_t r) {
    const ModelRun& run = model_.runs[r];
    Live& live = runs_[r];
    live.tasks.assign(run.tasks.size(), ModelState::kPending);
    for (const ModelTask& task : run.tasks) live.active.emplace_back(task.chips.size());
    live.doomed.assign(run.tasks.size(), false);
    live.deferred.assign(run.tasks.size(), false);
    live.body = [this, r](uint32_t i, const pto_context& context) { return Call(r, i, context); };
    GraphTarget target;
    target.kernels = &SlowKernels();
    target.chip_clusters = node_.clusters;
    if (!run.segments.empty()) return AcceptOpen(r, target);
    GraphBuilder builder(target, GraphBuilder::Options{.find_dependencies = false});
    GraphFiller<GraphBuilder> filler(builder, node_.clusters.size());
    for (uint32_t i = 0; i < run.tasks.size(); ++i) filler.Add(run.tasks[i], i, &live.body);
    RunSpec spec;
    spec.image = builder.Build().value();
    spec.slots = node_.slots();
    spec.wait_timeout_ns = run.wait_timeout_ns;
    spec.task_timeout_ns = run.task_timeout_ns;
    spec.timeout_ns = run.timeout_ns;
    live.run = node_.engine->Prepare(std::move(spec));
    node_.engine->Accept(live.run);
    live.begun = run.behind.empty();
    if (live.begun) node_.engine->Begin(live.run);
  }

  void AcceptOpen(size_t r, const GraphTarget& target) {
    const ModelRun& run = model_.runs[r];
    Live& live = runs_[r];
    OpenGraph graph(target);
    GraphFiller<OpenGraph> filler(graph, node_.clusters.size());
    OpenRun::Options options;
    options.engine = node_.engine.get();
    options.clock = &node_.clock;
    options.observer = std::make_shared<OpenRunWatcher>();
    options.wait_timeout_ns = run.wait_timeout_ns;
    options.task_timeout_ns = run.task_timeout_ns;
    live.open = OpenRun::Make(std::move(options));
    live.begun = true;
    uint32_t next = 0;
    for (const uint32_t count : run.segments) {
      for (uint32_t i = 0; i < count; ++i, ++next) filler.Add(run.tasks[next], next, &live.body);
      const GraphSegment segment = graph.Cut().value();
      live.open->Append(segment, segment.slots.empty() ? nullptr : node_.slots());
    }
    live.open->Close();
  }

  // A run keeps its place until its turn has come, also when it has ended.
  bool Passed(size_t r) const {
    const Live& live = runs_[r];
    const bool ended =
        live.open != nullptr ? IsFinal(live.open->state()) : IsFinal(live.run->state());
    return ended && std::all_of(model_.runs[r].behind.begin(), model_.runs[r].behind.end(),
                                [&](size_t before) { return Passed(before); });
  }
  bool BeginNext() {
    bool any = false;
    for (size_t r = 0; r < runs_.size(); ++r) {
      Live& live = runs_[r];
      const std::vector<size_t>& behind = model_.runs[r].behind;
      if (live.begun || !std::all_of(behind.begin(), behind.end(),
                                     [&](size_t before) { return Passed(before); })) {
        continue;
      }
      live.begun = true;
      node_.engine->Begin(live.run);
      any = true;
    }
    return any;
  }

  // Those that keep the run from beginning. One that was stopped before its turn came does so as
  // long as those before it do.
  void AddBehind(size_t r, std::vector<size_t>* behind) const {
    for (const size_t before : model_.runs[r].behind) {
      const auto place = std::find_if(places_.begin(), places_.end(),
                                      [&](const Place& other) { return other.run == before; });
      if (place != places_.end()) {
        behind->push_back(static_cast<size_t>(place - places_.begin()));
      } else {
        AddBehind(before, behind);
      }
    }
  }

  Place PlaceOf(const RunNow& run) const {
    for (size_t r = 0; r < runs_.size(); ++r) {
      if (runs_[r].run == run.run) return {r, 0, 0};
      if (!run.linked || runs_[r].open == nullptr) continue;
      uint32_t first = 0;
      for (size_t s = 0; s < model_.runs[r].segments.size(); ++s) {
        if (first == run.observer->first_task()) return {r, first, s};
        first += model_.runs[r].segments[s];
      }
    }
    ADD_FAILURE() << "the engine has a run that is not the model's";
    return {};
  }

  SlowEngine& node_;
  const Model& model_;
  ModelMaker& random_;
  std::vector<Live> runs_;
  std::vector<Place> places_;
};

// Compares all that is said of a state with the truth.
class Comparison {
 public:
  Comparison(RunningModel& running, const Model& model, const ModelState& state, bool exact)
      : running_(running),
        model_(model),
        state_(state),
        truth_(model, state),
        exact_(exact),
        now_(running.Look()),
        diagnosis_(now_) {}

  // Returns false when there are too many schedules to know the truth.
  bool Compare() {
    if (!truth_.complete()) return false;
    for (size_t i = 0; i < now_.runs.size(); ++i) CompareRun(i);
    return true;
  }
  uint64_t deadlocked() const { return deadlocked_; }
  uint64_t runs() const { return now_.runs.size(); }

 private:
  // A task of the model.
  struct Named {
    size_t run = 0;
    uint32_t task = 0;
    bool operator==(const Named&) const = default;
  };
  Named NamedBy(const TaskPlace& place) const {
    const RunningModel::Place& of = running_.place(place.run);
    return {of.run, of.first_task + place.task};
  }
  const ModelTask& TaskOf(const Named& named) const {
    return model_.runs[named.run].tasks[named.task];
  }
  ModelState::Task StateOf(const Named& named) const { return state_.tasks[named.run][named.task]; }
  bool HasEnded(const Named& named) const { return StateOf(named) >= ModelState::kDone; }
  static bool Notifies(const ModelTask& task, uint64_t word) {
    return (task.kind == Kind::kNotify || task.kind == Kind::kSend) && task.word == word;
  }
  // Whether one task comes after the other.
  bool ComesAfter(const Named& later, const Named& earlier) const {
    if (later.run != earlier.run) return false;
    for (const uint32_t before : model_.runs[later.run].tasks[later.task].after) {
      if (before == earlier.task || ComesAfter({later.run, before}, earlier)) return true;
    }
    return false;
  }
  bool IsBehind(size_t run, size_t before) const {
    const std::vector<size_t>& behind = model_.runs[run].behind;
    return std::any_of(behind.begin(), behind.end(),
                       [&](size_t other) { return other == before || IsBehind(other, before); });
  }
  uint32_t FreeCores(uint32_t chip) const { return state_.FreeCores(model_, chip); }

  void CompareRun(size_t i) {
    const RunningModel::Place& place = running_.place(i);
    const RunDiagnosis found = diagnosis_.Explain(i, 0, kStall, 64);
    const bool can_end = now_.runs[i].linked ? truth_.SegmentCanEnd(place.run, place.segment)
                                             : truth_.CanEnd(place.run);
    const bool deadlocked = found.verdict == Verdict::kDeadlocked;
    deadlocked_ += deadlocked ? 1 : 0;
    if (exact_) {
      EXPECT_EQ(deadlocked, !can_end) << "run " << place.run << " segment " << place.segment;
    } else if (deadlocked) {
      EXPECT_FALSE(can_end) << "run " << place.run << " segment " << place.segment;
    }
    EXPECT_NE(found.verdict, Verdict::kEnded);
    bool names_reason = false;
    for (const Obstacle& obstacle : found.obstacles) {
      names_reason |= !obstacle.can_end;
      CheckClaims(i, obstacle);
    }
    if (deadlocked) {
      EXPECT_TRUE(names_reason) << "run " << place.run << " is deadlocked for no reason";
    }
  }

  void CheckClaims(size_t i, const Obstacle& obstacle) {
    const Named own = NamedBy({i, obstacle.task});
    if (obstacle.kind != Obstacle::Kind::kTurn) {
      EXPECT_FALSE(HasEnded(own)) << "task " << own.task;
    }
    switch (obstacle.kind) {
      case Obstacle::Kind::kSignal:
        CheckSignal(own, obstacle);
        break;
      case Obstacle::Kind::kCores:
        CheckCores(own, obstacle);
        break;
      case Obstacle::Kind::kReservation:
        EXPECT_TRUE(TaskOf(own).gang);
        EXPECT_EQ(StateOf(own), ModelState::kPending);
        if (exact_) {
          EXPECT_EQ(obstacle.can_end, truth_.CanStart(own.run, own.task));
        }
        break;
      case Obstacle::Kind::kPredecessors:
        ASSERT_EQ(obstacle.peers.size(), 1u);
        EXPECT_TRUE(ComesAfter(own, NamedBy(obstacle.peers[0])));
        EXPECT_FALSE(HasEnded(NamedBy(obstacle.peers[0])));
        break;
      case Obstacle::Kind::kTurn:
        EXPECT_FALSE(state_.begun[own.run]);
        for (const size_t run : obstacle.runs) {
          EXPECT_TRUE(IsBehind(own.run, running_.place(run).run));
        }
        break;
      default:
        ADD_FAILURE() << "nothing of the kind " << static_cast<int>(obstacle.kind);
    }
  }

  void CheckSignal(const Named& own, const Obstacle& obstacle) {
    const ModelTask& task = TaskOf(own);
    EXPECT_EQ(StateOf(own) == ModelState::kWaiting, !obstacle.ahead) << "task " << own.task;
    EXPECT_EQ(obstacle.element, task.word);
    EXPECT_EQ(obstacle.want, task.value);
    EXPECT_EQ(obstacle.compare, static_cast<uint32_t>(task.compare));
    EXPECT_EQ(obstacle.have, state_.words[task.word]);
    for (const TaskPlace& place : obstacle.peers) {
      const Named peer = NamedBy(place);
      EXPECT_TRUE(Notifies(TaskOf(peer), task.word)) << "task " << peer.task;
      EXPECT_FALSE(HasEnded(peer)) << "task " << peer.task;
      if (exact_) {
        EXPECT_TRUE(truth_.CanNotify(peer.run, peer.task)) << "task " << peer.task;
      }
    }
    for (const TaskPlace& place : obstacle.ended) {
      const Named sender = NamedBy(place);
      EXPECT_TRUE(Notifies(TaskOf(sender), task.word)) << "task " << sender.task;
      EXPECT_TRUE(HasEnded(sender)) << "task " << sender.task;
    }
    for (const HeldSender& held : obstacle.held) CheckHeld(task.word, held);
    if (!obstacle.can_end) CheckAllNamed(own, obstacle);
    for (size_t k = 0; k < obstacle.cycle.size(); ++k) {
      EXPECT_FALSE(HasEnded(NamedBy(obstacle.cycle[k])));
    }
  }

  void CheckHeld(uint32_t word, const HeldSender& held) {
    const Named sender = NamedBy(held.sender);
    EXPECT_TRUE(Notifies(TaskOf(sender), word)) << "task " << sender.task;
    EXPECT_FALSE(HasEnded(sender)) << "task " << sender.task;
    EXPECT_FALSE(truth_.CanNotify(sender.run, sender.task)) << "task " << sender.task;
    if (held.by.has_value()) {
      EXPECT_FALSE(HasEnded(NamedBy(*held.by)));
    }
    switch (held.why) {
      case HeldSender::Why::kTasks:
        ASSERT_TRUE(held.by.has_value());
        EXPECT_TRUE(ComesAfter(sender, NamedBy(*held.by)));
        break;
      case HeldSender::Why::kTurn: {
        EXPECT_FALSE(state_.begun[sender.run]);
        EXPECT_TRUE(IsBehind(sender.run, running_.place(held.run).run));
        break;
      }
      case HeldSender::Why::kCores: {
        ASSERT_TRUE(held.by.has_value());
        const ModelTask& keeps = TaskOf(NamedBy(*held.by));
        EXPECT_EQ(keeps.kind, Kind::kHold);
        bool lacks = false;
        for (const uint32_t chip : TaskOf(sender).chips) lacks |= FreeCores(chip) == 0;
        EXPECT_TRUE(lacks);
        break;
      }
      case HeldSender::Why::kItself:
        EXPECT_EQ(StateOf(sender), ModelState::kWaiting);
        break;
    }
  }

  // Of a wait that never holds: each task that would notify it and has not ended is held up, and
  // one of these is named, if there is any.
  void CheckAllNamed(const Named& own, const Obstacle& obstacle) {
    const uint32_t word = TaskOf(own).word;
    bool exists = false, exact_exists = false, can = false;
    for (size_t r = 0; r < model_.runs.size(); ++r) {
      if (state_.Ended(r)) continue;
      for (uint32_t i = 0; i < model_.runs[r].tasks.size(); ++i) {
        const ModelTask& task = model_.runs[r].tasks[i];
        if (!Notifies(task, word)) continue;
        exact_exists |= task.kind == Kind::kNotify && !InEndedSegment(r, i);
        if (HasEnded({r, i})) continue;
        can |= truth_.CanNotify(r, i);
        exists |= !(Named{r, i} == own);
      }
    }
    if (!exists || can || !exact_ || obstacle.ahead) return;
    // Where tasks are there to notify, a kernel that might is not named.
    if (exact_exists && obstacle.held.empty()) {
      EXPECT_FALSE(obstacle.ended.empty()) << "task " << own.task;
      return;
    }
    EXPECT_FALSE(obstacle.held.empty()) << "no sender is named for task " << own.task;
  }
  // A segment that has ended is forgotten.
  bool InEndedSegment(size_t r, uint32_t task) const {
    uint32_t first = 0;
    for (const uint32_t count : model_.runs[r].segments) {
      if (task < first + count) return state_.Ended(r, first, count);
      first += count;
    }
    return false;
  }

  void CheckCores(const Named& own, const Obstacle& obstacle) {
    EXPECT_EQ(obstacle.have, FreeCores(obstacle.chip)) << "chip " << obstacle.chip;
    EXPECT_LE(obstacle.reserved, obstacle.have);
    if (obstacle.reserved > 0) {
      ASSERT_TRUE(obstacle.reserved_for.has_value());
      const Named gang = NamedBy(*obstacle.reserved_for);
      EXPECT_TRUE(TaskOf(gang).gang);
      EXPECT_EQ(StateOf(gang), ModelState::kPending);
      EXPECT_LE(obstacle.reserved, TaskOf(gang).blocks);
    }
    if (exact_ && StateOf(own) != ModelState::kWaiting) {
      EXPECT_EQ(obstacle.can_end, truth_.CanStart(own.run, own.task)) << "task " << own.task;
    }
    for (const TaskPlace& place : obstacle.peers) {
      const Named holder = NamedBy(place);
      EXPECT_EQ(TaskOf(holder).kind, Kind::kHold);
      EXPECT_EQ(StateOf(holder), ModelState::kWaiting);
    }
  }

  RunningModel& running_;
  const Model& model_;
  const ModelState& state_;
  const SignalModel truth_;
  const bool exact_;
  const EngineNow now_;
  const Diagnosis diagnosis_;
  uint64_t deadlocked_ = 0;
};

struct Totals {
  uint64_t runs = 0;
  uint64_t deadlocked = 0;
  uint64_t too_many = 0;  // models with more schedules than are followed
};

void CompareModel(uint64_t seed, bool wild, Totals* totals) {
  ModelMaker maker(seed, wild);
  const Model model = maker.Make();
  std::vector<uint32_t> clusters;
  for (const uint32_t cores : model.vector_cores) clusters.push_back(cores / 2);
  // Engines are kept for models with the same chips.
  static auto* const engines = new std::map<std::vector<uint32_t>, std::unique_ptr<SlowEngine>>;
  std::unique_ptr<SlowEngine>& node = (*engines)[clusters];
  if (node == nullptr) node = std::make_unique<SlowEngine>(clusters);
  RunningModel running(*node, model, maker);
  // Each state in which only times can be up.
  for (bool more = true; more;) {
    running.Settle();
    const ModelState state = running.State();
    Comparison comparison(running, model, state, !wild);
    if (!comparison.Compare()) ++totals->too_many;
    totals->runs += comparison.runs();
    totals->deadlocked += comparison.deadlocked();
    if (::testing::Test::HasFailure()) {
      ADD_FAILURE() << model.Describe();
      return;
    }
    more = maker.OneOf(2) && running.Expire();
  }
}

// So many models, in parts that shards share.
constexpr uint64_t kParts = 8;

class SignalModelTest : public ::testing::TestWithParam<uint64_t> {
 protected:
  Totals CompareModels(uint64_t models, bool wild) {
    Totals totals;
    const uint64_t first = GetParam() * models;
    Explore(models, [&](uint64_t seed) { CompareModel(first + seed, wild, &totals); });
    RecordProperty("deadlocked", std::to_string(totals.deadlocked));
    std::printf("%lu runs, %lu deadlocked, %lu models too large\n", totals.runs, totals.deadlocked,
                totals.too_many);
    return totals;
  }
};

TEST_P(SignalModelTest, SaysDeadlockedExactlyWhenNoContinuationEndsTheRun) {
  constexpr uint64_t kModels = 100'000 / kParts / kShare;
  const Totals totals = CompareModels(kModels, /*wild=*/false);
  // All of that has been there, and often.
  EXPECT_GT(totals.deadlocked, kModels / 10);
  EXPECT_GT(totals.runs - totals.deadlocked, kModels / 10);
  EXPECT_LT(totals.too_many, kModels / 100);
}

TEST_P(SignalModelTest, NeverSaysDeadlockedOfARunThatCanEnd) {
  constexpr uint64_t kModels = 20'000 / kParts / kShare;
  const Totals totals = CompareModels(kModels, /*wild=*/true);
  EXPECT_GT(totals.deadlocked, kModels / 10);
  EXPECT_LT(totals.too_many, kModels / 20);
}

INSTANTIATE_TEST_SUITE_P(Parts, SignalModelTest, ::testing::Range(uint64_t{0}, kParts));

}  // namespace
}  // namespace pto::engine
