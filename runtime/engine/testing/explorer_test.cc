#include "runtime/engine/testing/explorer.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "runtime/base/sanitized.h"
#include "runtime/engine/testing/slow_testing.h"

namespace pto::engine {
namespace {

using ::pto::engine::testing::Explore;
using ::pto::engine::testing::Explorer;
using ::pto::engine::testing::KernelBody;
using ::pto::engine::testing::SlowEngine;
using ::pto::engine::testing::SlowTask;

// Sanitizers take ten times as long.
constexpr uint64_t kSchedules = kSanitized ? 2000 : 21'000;

// What a scenario may contain.
struct Mix {
  bool cancels = false;
  bool deadlines = false;
  bool failures = false;
  bool gangs = false;
};

// Words of memory: each task waits for a word of its own, and has others for data.
constexpr uint32_t kMaxTasks = 8;

// One random graph, run in one random order.
class Scenario {
 public:
  Scenario(SlowEngine& node, uint64_t seed, const Mix& mix)
      : node_(node), explorer_(node, seed), mix_(mix) {}

  void Run() {
    for (uint32_t i = 0; i < SlowEngine::kWords; ++i) *node_.word(i) = 0;
    MakeTasks();
    const KernelBody body = [this](uint32_t task, const pto_context& context) {
      return Call(task, context);
    };
    RunSpec spec;
    if (mix_.deadlines && explorer_.OneOf(4)) spec.task_timeout_ns = Time();
    if (mix_.deadlines && explorer_.OneOf(4)) spec.wait_timeout_ns = Time();
    if (mix_.deadlines && explorer_.OneOf(8)) spec.timeout_ns = Time();
    if (mix_.deadlines && explorer_.OneOf(8)) spec.queue_timeout_ns = Time();
    run_ = node_.Start(tasks_, body, spec);
    if (mix_.cancels) {
      explorer_.Add([this] {
        cancelled_ = !IsFinal(run_->state());
        node_.Cancel(*run_);
      });
    }
    explorer_.Run();
    Check();
  }

 private:
  int64_t Time() { return 1 + static_cast<int64_t>(explorer_.Choose(5)) * 1000; }

  void MakeTasks() {
    const size_t count = 2 + explorer_.Choose(kMaxTasks - 1);
    calls_.assign(count, 0);
    fails_.assign(count, false);
    for (uint32_t i = 0; i < count; ++i) {
      SlowTask task;
      const char* const kinds[] = {"plain", "waits", "plain",      "waits",
                                   "join",  "wait",  "copy_async", "notify"};
      task.kernel = kinds[explorer_.Choose(8)];
      for (uint32_t before = 0; before < i; ++before) {
        if (explorer_.OneOf(3)) task.after.push_back(before);
      }
      task.word = i;
      if (task.kernel == "wait") {
        task.scalars = {PTO_GE, 1, mix_.deadlines && explorer_.OneOf(3) ? Time() : 0};
      } else if (task.kernel == "notify") {
        task.scalars = {PTO_ADD, 1};
      } else if (task.kernel == "copy_async") {
        task.from = 32;
        task.to = 40;
        task.count = 8;
      } else if (task.kernel != "join") {
        task.block_num = static_cast<uint32_t>(1 + explorer_.Choose(3));
        task.together = mix_.gangs && task.kernel == "waits" && task.block_num > 1;
        if (mix_.deadlines && explorer_.OneOf(4)) task.timeout_ns = Time();
        fails_[i] = mix_.failures && explorer_.OneOf(4);
        if (explorer_.OneOf(5)) {
          // Holds or not: no task changes that word.
          task.predicate = SlowTask::Predicate{60, explorer_.OneOf(2) ? PTO_EQ : PTO_NE, 0};
        }
      }
      // All that is waited for comes at some time.
      explorer_.Add([this, i] { node_.Notify(i, PTO_ADD, 1); });
      tasks_.push_back(task);
    }
  }

  // What a block does follows from its task, so that a seed alone says all.
  int32_t Call(uint32_t index, const pto_context& context) {
    const SlowTask& task = tasks_[index];
    EXPECT_FALSE(IsFinal(run_ == nullptr ? RunState::kQueued : run_->state()));
    EXPECT_LT(context.block_index, task.block_num);
    ++calls_[index];
    const pto_signal own = node_.signal(index);
    const bool waits = task.kernel == "waits";
    if (waits && context.block_index == 0) {
      if (const int32_t code = context.api->wait(&context, &own, PTO_GE, 1, 0)) return code;
    }
    if (fails_[index] && context.block_index == task.block_num - 1) return 77;
    for (int i = 0; task.together && i < 2; ++i) {
      const pto_scope scope = i == 0 ? PTO_SCOPE_TASK : PTO_SCOPE_CHIP;
      if (const int32_t code = context.api->barrier(&context, scope)) return code;
    }
    if (index % 2 == 0) {
      const int64_t timeout = mix_.deadlines && index % 4 == 0 ? 2000 : 0;
      if (const int32_t code = context.api->defer(&context, &own, PTO_GT, 0, timeout)) return code;
    }
    if (index % 3 == 0) {
      const pto_tensor to = node_.words(48, 4);
      const pto_tensor from = node_.words(52, 4);
      pto_event event = 0;
      int32_t code = context.api->copy(&context, &to, &from, nullptr, PTO_SET, 0, &event);
      if (code != 0) return code;
      code = waits ? context.api->wait_copy(&context, event, 0)
                   : context.api->defer_copy(&context, event, 0);
      return code;
    }
    return 0;
  }

  void Check() {
    ASSERT_TRUE(IsFinal(run_->state())) << "the run hangs";
    EXPECT_EQ(node_.observer->finished, 1);
    const pto::engine::Run::Counts counts = run_->counts();
    const uint64_t ended = counts.done + counts.failed + counts.skipped;
    const bool stopped = run_->stop_requested();
    if (!stopped) {
      EXPECT_EQ(ended, tasks_.size());
      EXPECT_EQ(node_.observer->records().size(), tasks_.size());
    }
    std::set<uint32_t> recorded;
    for (const TaskRecord& record : node_.observer->records()) {
      EXPECT_TRUE(recorded.insert(record.task).second) << "task " << record.task << " ended twice";
      if (record.outcome == TaskOutcome::kDone && tasks_[record.task].scalars.empty() &&
          (tasks_[record.task].kernel == "plain" || tasks_[record.task].kernel == "waits")) {
        EXPECT_EQ(calls_[record.task], tasks_[record.task].block_num);
      }
      if (record.outcome == TaskOutcome::kPassedOver || record.outcome == TaskOutcome::kSkipped) {
        EXPECT_EQ(calls_[record.task], 0u);
      }
    }
    if (!mix_.deadlines && !mix_.failures && !cancelled_) {
      EXPECT_EQ(run_->state(), RunState::kSucceeded);
    }
    if (cancelled_ && !mix_.deadlines) {
      EXPECT_EQ(run_->state(), RunState::kCancelled);
    }
    EXPECT_EQ(run_->errors().empty(), run_->state() == RunState::kSucceeded);
    node_.ExpectClean();
  }

  SlowEngine& node_;
  Explorer explorer_;
  const Mix mix_;
  std::vector<SlowTask> tasks_;
  std::vector<uint32_t> calls_;
  std::vector<bool> fails_;
  std::shared_ptr<pto::engine::Run> run_;
  bool cancelled_ = false;
};

void ExploreMix(const Mix& mix) {
  // Few cores, so that gangs and others are in each other's way.
  SlowEngine node({2});
  Explore(kSchedules, [&](uint64_t seed) { Scenario(node, seed, mix).Run(); });
}

TEST(ExplorerTest, WaitsNotifiesAndDeferrals) { ExploreMix({}); }
TEST(ExplorerTest, Cancels) { ExploreMix({.cancels = true, .gangs = true}); }
TEST(ExplorerTest, Deadlines) { ExploreMix({.deadlines = true, .gangs = true}); }
TEST(ExplorerTest, Failures) { ExploreMix({.failures = true, .gangs = true}); }
TEST(ExplorerTest, AllAtOnce) {
  ExploreMix({.cancels = true, .deadlines = true, .failures = true, .gangs = true});
}

TEST(ExplorerTest, ASeedStandsForOneOrder) {
  SlowEngine node({1});
  const auto order = [&](uint64_t seed) {
    std::string text;
    const KernelBody body = [&](uint32_t task, const pto_context&) {
      text += static_cast<char>('a' + task);
      return 0;
    };
    Explorer explorer(node, seed);
    std::vector<SlowTask> tasks(6);
    for (SlowTask& task : tasks) task.kernel = "waits";
    node.Start(tasks, body);
    explorer.Add([&] { text += '!'; });
    explorer.Run();
    return text;
  };
  std::set<std::string> orders;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    EXPECT_EQ(order(seed), order(seed));
    orders.insert(order(seed));
  }
  EXPECT_GT(orders.size(), 3u);
}

}  // namespace
}  // namespace pto::engine
