// Lanes that answer late, in any order, badly or not at all, in many random schedules.

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/sanitized.h"
#include "runtime/engine/lane/lane_port.h"
#include "runtime/engine/run/account.h"
#include "runtime/engine/testing/explorer.h"
#include "runtime/engine/testing/slow_testing.h"
#include "runtime/engine/testing/test_lane.h"

namespace pto::engine {
namespace {

using ::pto::engine::testing::Explore;
using ::pto::engine::testing::Explorer;
using ::pto::engine::testing::KernelBody;
using ::pto::engine::testing::SlowEngine;
using ::pto::engine::testing::SlowTask;
using ::pto::engine::testing::TestLane;
using ::pto::engine::testing::TestObserver;

// For each of the ten tests, of which 100,000 are the sum. Sanitizers take ten times as long.
constexpr uint64_t kSchedules = kSanitized ? 500 : 10'000;
constexpr int64_t kGraceNs = 3000;
// So many words are signals.
constexpr uint32_t kSignals = 3;

// What has happened in all scenarios of a test.
struct Tally {
  uint64_t answered = 0;
  uint64_t lost = 0;
  uint64_t ignored = 0;
  uint64_t cancelled = 0;
  uint64_t batches = 0;  // of several posts
  uint64_t kills = 0;
  uint64_t calls = 0;
  uint64_t bad_calls = 0;
  std::map<pto_result, uint64_t> results;
};

// One or two lanes, and some runs, in one random order.
class Scenario {
 public:
  Scenario(SlowEngine& node, uint64_t seed, Tally* tally)
      : node_(node), explorer_(node, seed), tally_(*tally) {
    choose_ = [this](size_t count) { return explorer_.Choose(count); };
  }

  void Run() {
    for (uint32_t i = 0; i < kSignals; ++i) *node_.word(i) = 0;
    AddLanes();
    for (size_t left = 1 + explorer_.Choose(3); left > 0; --left) {
      explorer_.Add([this] { Start(); });
    }
    for (size_t left = explorer_.Choose(4); left > 0; --left) {
      const auto word = static_cast<uint32_t>(explorer_.Choose(kSignals));
      explorer_.Add([this, word] {
        node_.Notify(word, PTO_ADD, 1);
        node_.engine->LookAtForeignWords();
      });
    }
    explorer_.Run();
    node_.engine->LookAtForeignWords();
    explorer_.Run();
    // Runs whose posts were dropped, or that wait for what does not come, and that have no
    // deadline, go on until somebody stops them.
    for (Entry& entry : entries_) {
      if (IsFinal(entry.run->state())) continue;
      uint64_t outstanding = 0;
      for (const auto& port : ports_) outstanding += port->counts().outstanding;
      EXPECT_GT(outstanding + node_.engine->waiting(), 0u) << "a run waits for nothing";
      node_.Cancel(*entry.run);
    }
    explorer_.Run();
    Check();
  }

 private:
  struct Entry {
    std::shared_ptr<pto::engine::Run> run;
    std::shared_ptr<TestObserver> observer;
    size_t tasks = 0;
  };

  int64_t Time() { return 1 + static_cast<int64_t>(explorer_.Choose(8)) * 1000; }
  size_t Rarely(size_t count) { return explorer_.OneOf(2) ? count : 0; }

  void AddLanes() {
    const size_t count = 1 + explorer_.Choose(2);
    for (size_t i = 0; i < count; ++i) {
      TestLane::Quirks quirks;
      quirks.fails = Rarely(6);
      quirks.drops = Rarely(6);
      quirks.duplicates = Rarely(3);
      quirks.unknown = Rarely(4);
      quirks.dies = Rarely(12);
      quirks.late = Rarely(1);
      quirks.leaves = Rarely(3);
      quirks.twice = Rarely(4);
      const std::string name = i == 0 ? "near" : "far";
      lanes_.push_back(std::make_shared<TestLane>(name, quirks));
      ports_.push_back(node_.AddLane(lanes_.back(), name, PTO_KERNEL_WAITS | PTO_KERNEL_NOTIFIES));
      const std::shared_ptr<TestLane> lane = lanes_.back();
      // Some scenarios make no calls.
      if (!explorer_.OneOf(4)) {
        lane->SetScript([this](const LanePost& post) { return MakeCalls(post); });
      }
      explorer_.AddSource([lane] { return lane->CanAct(); }, [this, lane] { lane->Act(choose_); });
    }
    for (auto& account : accounts_) account = std::make_shared<Account>("a", 2);
  }

  // What the kernel of a post calls the engine for: what holds soon, later or never.
  std::vector<LaneCall> MakeCalls(const LanePost& post) {
    std::vector<LaneCall> calls(explorer_.Choose(4));
    for (LaneCall& call : calls) {
      call.kind = static_cast<LaneCall::Kind>(explorer_.Choose(7));
      const auto word = static_cast<uint32_t>(explorer_.Choose(kSignals));
      call.signal = node_.signal(word);
      call.how = PTO_GE;
      call.value = *node_.word(word) + static_cast<int64_t>(explorer_.Choose(2));
      if (explorer_.OneOf(3)) call.timeout_ns = Time();
      switch (call.kind) {
        case LaneCall::Kind::kNotify:
        case LaneCall::Kind::kCopy:
          call.how = PTO_ADD;
          call.value = 1;
          call.to = node_.words(8, 4);
          call.from = node_.words(16, 4);
          break;
        case LaneCall::Kind::kBarrier:
          // Some blocks of a gang may come to other barriers than the rest.
          call.how = explorer_.OneOf(3) ? PTO_SCOPE_CHIP : PTO_SCOPE_TASK;
          if (post.gang_size == 0) {
            call.kind = LaneCall::Kind::kNotify;
            call.how = PTO_ADD;
            call.value = 1;
          }
          break;
        case LaneCall::Kind::kWaitCopy:
        case LaneCall::Kind::kDeferCopy:
          call.event = 1;
          break;
        case LaneCall::Kind::kDefer:
          if (explorer_.OneOf(2)) call.signal.dtype = PTO_U64;
          break;
        default:
          break;
      }
    }
    return calls;
  }

  void Start() {
    std::vector<SlowTask> tasks(1 + explorer_.Choose(5));
    for (uint32_t i = 0; i < tasks.size(); ++i) {
      SlowTask& task = tasks[i];
      const size_t kind = explorer_.Choose(6);
      task.kernel = kind == 0   ? "plain"
                    : kind == 1 ? "waits"
                                : lanes_[kind % lanes_.size()]->name();
      for (uint32_t before = 0; before < i; ++before) {
        if (explorer_.OneOf(3)) task.after.push_back(before);
      }
      task.chip = explorer_.OneOf(3) ? 1 : 0;
      task.block_num = static_cast<uint32_t>(1 + explorer_.Choose(task.chip == 0 ? 4 : 2));
      task.together = kind != 0 && task.block_num > 1 && explorer_.OneOf(2);
      if (kind > 1 && explorer_.OneOf(5)) {
        task.members = {0, 1};
        task.block_num = static_cast<uint32_t>(1 + explorer_.Choose(2));
      } else if (kind > 1 && explorer_.OneOf(5)) {
        task.vector_kernels = {lanes_[explorer_.Choose(lanes_.size())]->name()};
        task.block_num = static_cast<uint32_t>(1 + explorer_.Choose(task.chip == 0 ? 2 : 1));
      }
      if (explorer_.OneOf(6)) task.timeout_ns = Time();
    }
    RunSpec spec;
    if (explorer_.OneOf(6)) spec.timeout_ns = Time();
    if (explorer_.OneOf(6)) spec.task_timeout_ns = Time();
    if (explorer_.OneOf(8)) spec.queue_timeout_ns = Time();
    if (explorer_.OneOf(2)) spec.account = accounts_[explorer_.Choose(2)];
    spec.priority = static_cast<Priority>(explorer_.Choose(3));
    node_.help_ns = explorer_.OneOf(3) ? 1000 : 0;
    Entry entry;
    entry.tasks = tasks.size();
    entry.run = node_.Start(tasks, body_, spec);
    entry.observer = node_.observer;
    entries_.push_back(entry);
    if (explorer_.OneOf(4)) {
      explorer_.Add([this, run = entry.run] { node_.Cancel(*run); });
    }
  }

  void Check() {
    for (const Entry& entry : entries_) {
      ASSERT_TRUE(IsFinal(entry.run->state())) << "a run hangs";
      EXPECT_EQ(entry.observer->finished, 1);
      const pto::engine::Run::Counts counts = entry.run->counts();
      const uint64_t ended = counts.done + counts.failed + counts.skipped;
      if (!entry.run->stop_requested()) {
        EXPECT_EQ(ended, entry.tasks);
        EXPECT_EQ(entry.observer->records().size(), entry.tasks);
      } else {
        EXPECT_LE(ended, entry.tasks);
      }
      EXPECT_EQ(entry.run->errors().empty(), entry.run->state() == RunState::kSucceeded);
    }
    for (size_t i = 0; i < lanes_.size(); ++i) {
      const TestLane::Seen seen = lanes_[i]->seen();
      const PostTable::Counts counts = ports_[i]->counts();
      uint64_t posted = 0;
      for (const size_t batch : seen.posts) {
        posted += batch;
        tally_.batches += batch > 1 ? 1 : 0;
      }
      tally_.answered += counts.answered;
      tally_.lost += counts.lost;
      tally_.ignored += counts.ignored;
      tally_.cancelled += seen.cancels.size();
      tally_.kills += seen.kills;
      tally_.calls += seen.calls;
      tally_.bad_calls += seen.bad_calls;
      for (const auto& [result, count] : seen.results) tally_.results[result] += count;
      EXPECT_EQ(seen.wrong_answers, 0u);
      EXPECT_EQ(counts.calls, seen.calls);
      EXPECT_EQ(counts.posted, posted);
      EXPECT_EQ(counts.outstanding, 0u);
      EXPECT_EQ(counts.posted, counts.answered + counts.lost);
      EXPECT_EQ(seen.answers + seen.bad_calls, counts.answered + counts.ignored);
      EXPECT_LE(seen.kills, 1u);
      EXPECT_EQ(seen.kills > 0, ports_[i]->lost());
      EXPECT_EQ(seen.calls_after_kill, 0u);
      EXPECT_EQ(seen.broken_gangs, 0u);
      if (counts.lost > 0) {
        EXPECT_EQ(seen.kills, 1u);
      }
    }
    node_.ExpectClean();
  }

  SlowEngine& node_;
  Explorer explorer_;
  Tally& tally_;
  TestLane::Chooser choose_;
  std::vector<std::shared_ptr<TestLane>> lanes_;
  std::vector<std::shared_ptr<LanePort>> ports_;
  std::shared_ptr<Account> accounts_[2];
  std::vector<Entry> entries_;
  const KernelBody body_ = [](uint32_t, const pto_context& context) {
    EXPECT_EQ(context.tensor_count, 1u);
    return 0;
  };
};

// A tenth of the seeds each, so that shards have equal parts.
class EngineLaneExploreTest : public ::testing::TestWithParam<uint64_t> {};

TEST_P(EngineLaneExploreTest, EveryRunEnds) {
  SlowEngine node({2, 1}, 0, kGraceNs);
  Tally tally;
  Explore(kSchedules,
          [&](uint64_t seed) { Scenario(node, GetParam() * kSchedules + seed, &tally).Run(); });
  // Each of these is common.
  const uint64_t often = std::getenv("PTO_EXPLORE_SEED") != nullptr ? 0 : kSchedules / 50;
  for (const uint64_t count :
       {tally.answered, tally.lost, tally.ignored, tally.cancelled, tally.batches, tally.kills,
        tally.calls, tally.bad_calls, tally.results[PTO_OK], tally.results[PTO_TIMED_OUT],
        tally.results[PTO_CANCELLED], tally.results[PTO_BROKEN]}) {
    EXPECT_GE(count, often);
  }
}

INSTANTIATE_TEST_SUITE_P(Tenths, EngineLaneExploreTest, ::testing::Range<uint64_t>(0, 10));

}  // namespace
}  // namespace pto::engine
