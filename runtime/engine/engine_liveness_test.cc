// Real threads, several classes, gangs over several chips, clusters and blocks that wait, side by
// side; with a watch for what must never last.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "runtime/base/sanitized.h"
#include "runtime/base/ticks.h"
#include "runtime/base/timer.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/run/account.h"
#include "runtime/engine/testing/engine_testing.h"
#include "runtime/engine/testing/engine_watch.h"
#include "runtime/engine/testing/slow_testing.h"

namespace pto::engine {
namespace {

using ::pto::engine::testing::EngineWatch;
using ::pto::engine::testing::KernelBody;
using ::pto::engine::testing::MakeTestChips;
using ::pto::engine::testing::MakeTestGraph;
using ::pto::engine::testing::SlowEngine;
using ::pto::engine::testing::TestObserver;
using ::pto::engine::testing::TestTask;

constexpr int kFewer = kSanitized ? 5 : 1;

void Spin(double microseconds) {
  const uint64_t until = Ticks() + static_cast<uint64_t>(microseconds * TicksPerMicrosecond());
  while (Ticks() < until) {
  }
}

std::vector<TestTask> RandomTasks(std::mt19937& random, const std::vector<uint32_t>& clusters) {
  std::vector<TestTask> tasks(1 + random() % 30);
  for (uint32_t i = 0; i < tasks.size(); ++i) {
    TestTask& task = tasks[i];
    task.core = static_cast<pto_core>(PTO_AIC + random() % 3);
    task.chip = static_cast<uint32_t>(random() % clusters.size());
    uint32_t widest = clusters[task.chip];
    if (random() % 4 == 0) {
      task.members = {0, 1};
      widest = std::min(clusters[0], clusters[1]);
    }
    if (task.core == PTO_AIV) widest *= 2;
    if (random() % 3 == 0) task.block_num = 1 + random() % widest;
    task.sync_start = task.members.empty() && random() % 3 == 0;
    if (i > 0 && random() % 3 == 0) task.after = {static_cast<uint32_t>(random() % i)};
  }
  return tasks;
}

TEST(EngineLivenessTest, NothingSleepsOverReadyTasks) {
  SlowEngine node({2, 3}, /*executors=*/3);
  const TimerThread timer_thread(node.timers);
  const KernelBody wait = [&](uint32_t, const pto_context& context) {
    const pto_signal signal = node.signal(0);
    const int32_t result = context.api->wait(&context, &signal, PTO_EQ, 1, 0);
    return result == PTO_CANCELLED ? 0 : result;
  };
  std::mt19937 setup(7);
  std::vector<std::shared_ptr<const GraphImage>> images;
  for (int i = 0; i < 40; ++i) {
    images.push_back(MakeTestGraph(RandomTasks(setup, node.clusters), node.clusters,
                                   [](uint32_t task, const pto_context&) {
                                     Spin(task % 7 == 0 ? 200 : 5);
                                     return 0;
                                   }));
  }
  {
    EngineWatch watch(*node.engine);
    std::vector<std::thread> clients;
    for (uint32_t t = 0; t < 3; ++t) {
      clients.emplace_back([&, t] {
        std::mt19937 random(t);
        const auto account = std::make_shared<Account>("a");
        for (int i = 0; i < 300 / kFewer; ++i) {
          RunSpec spec;
          spec.image = images[random() % images.size()];
          spec.priority = static_cast<Priority>(random() % 3);
          spec.account = account;
          auto observer = std::make_shared<TestObserver>();
          spec.observer = observer;
          std::shared_ptr<pto::engine::Run> run = node.engine->Prepare(std::move(spec));
          node.engine->Start(run, random() % 3 == 0 ? 100'000 : 0);
          // Some clients do not wait, so that several of their runs compete.
          if (random() % 2 == 0) observer->WaitFinished();
        }
      });
    }
    // Blocks that wait come and go beside them, without a notification.
    std::thread holder([&] {
      std::mt19937 random(99);
      for (int i = 0; i < 60 / kFewer; ++i) {
        auto hold =
            node.Start({{.kernel = "waits", .chip = i % 2u, .block_num = 1 + i % 4u}}, wait);
        for (uint32_t n = random() % 200; n > 0; --n) std::this_thread::yield();
        node.Cancel(*hold);
      }
    });
    for (std::thread& client : clients) client.join();
    holder.join();
    EXPECT_TRUE(node.engine->WaitIdle(absl::Minutes(2)));
  }
  node.ExpectClean();
}

// Core time of two accounts of equal weight, one of which has gangs, beside each other.
TEST(EngineLivenessTest, GangsAndOtherTasksShareAChip) {
  const std::vector<uint32_t> clusters = {4};
  // By the width of the task: gangs have six blocks.
  std::atomic<int64_t> gang_ticks{0}, plain_ticks{0};
  std::atomic<bool> counting{true};
  const KernelBody body = [&](uint32_t, const pto_context& context) {
    const uint64_t begin = Ticks();
    Spin(30);
    if (counting.load(std::memory_order_relaxed)) {
      (context.block_count > 1 ? gang_ticks : plain_ticks) += static_cast<int64_t>(Ticks() - begin);
    }
    return 0;
  };
  TimerQueue timers(Clock::Real());
  const TimerThread timer_thread(timers);
  Engine::Options options;
  options.chips = MakeTestChips(clusters);
  options.timers = &timers;
  options.executors = 2;
  Engine engine(std::move(options));
  EngineWatch watch(engine);
  TestTask gang;
  gang.block_num = 6;
  gang.sync_start = true;
  const std::vector<std::shared_ptr<const GraphImage>> images = {
      MakeTestGraph(std::vector<TestTask>(12'000, gang), clusters, body),
      MakeTestGraph(std::vector<TestTask>(72'000), clusters, body)};
  std::vector<std::shared_ptr<pto::engine::Run>> runs;
  for (const std::shared_ptr<const GraphImage>& image : images) {
    RunSpec spec;
    spec.image = image;
    spec.account = std::make_shared<Account>("a");
    runs.push_back(engine.Prepare(std::move(spec)));
    engine.Start(runs.back());
  }
  // The part of the gangs while so many tasks more end, before either run is nearly done.
  const auto measure = [&] {
    const uint64_t gangs = runs[0]->counts().done + 1700 / kFewer;
    const uint64_t others = runs[1]->counts().done + 11'000 / kFewer;
    gang_ticks = plain_ticks = 0;
    while (runs[0]->counts().done < gangs && runs[1]->counts().done < others) {
      std::this_thread::yield();
    }
    const auto gang_part = static_cast<double>(gang_ticks);
    return gang_part / (gang_part + static_cast<double>(plain_ticks));
  };
  // A thread that the system takes away holds its core meanwhile, which counts, and does nothing.
  // So on a loaded machine one look may deviate.
  double part = measure();
  for (int i = 0; i < 4 && (part < 0.45 || part > 0.55); ++i) part = measure();
  counting = false;
  EXPECT_GE(part, 0.45);
  EXPECT_LE(part, 0.55);
  for (const std::shared_ptr<pto::engine::Run>& run : runs) {
    engine.Stop(*run, RunState::kCancelled, absl::CancelledError("by the test"));
  }
  EXPECT_TRUE(engine.WaitIdle(absl::Minutes(1)));
}

// Counts the tasks of one run that are placed one after the other while another run waits.
class StreakTrace final : public PlacementTrace {
 public:
  void OnPlaced(const BlockTicket& ticket) override {
    MutexLock lock(mutex_);
    if (!counting_) return;
    streak_ = ticket.run == last_ ? streak_ + 1 : 1;
    last_ = ticket.run;
    longest_ = std::max(longest_, streak_);
  }
  void OnStart(const BlockTicket&) override {}
  void Count(bool on) {
    MutexLock lock(mutex_);
    counting_ = on;
  }
  uint32_t longest() {
    MutexLock lock(mutex_);
    return longest_;
  }

 private:
  Mutex mutex_;
  bool counting_ ABSL_GUARDED_BY(mutex_) = false;
  const pto::engine::Run* last_ ABSL_GUARDED_BY(mutex_) = nullptr;
  uint32_t streak_ ABSL_GUARDED_BY(mutex_) = 0;
  uint32_t longest_ ABSL_GUARDED_BY(mutex_) = 0;
};

// More threads than cores, so that some threads always find no task.
TEST(EngineLivenessTest, RunsOfOneAccountAlternate) {
  const std::vector<uint32_t> clusters = {1};
  StreakTrace trace;
  Engine::Options options;
  options.chips = MakeTestChips(clusters);
  options.executors = 4;
  options.trace = &trace;
  Engine engine(std::move(options));
  TestTask task;
  task.core = PTO_AIC;
  const uint32_t count = 3000 / kFewer;
  const std::shared_ptr<const GraphImage> image =
      MakeTestGraph(std::vector<TestTask>(count, task), clusters, [](uint32_t, const pto_context&) {
        Spin(20);
        return 0;
      });
  std::vector<std::shared_ptr<pto::engine::Run>> runs;
  for (int i = 0; i < 2; ++i) {
    RunSpec spec;
    spec.image = image;
    spec.record_level = RecordLevel::kNone;
    runs.push_back(engine.Prepare(std::move(spec)));
    engine.Start(runs.back());
  }
  const auto done = [&] { return std::max(runs[0]->counts().done, runs[1]->counts().done); };
  // At first the duration of the tasks is unknown, so several are taken at once.
  while (done() < 300 / kFewer) std::this_thread::yield();
  trace.Count(true);
  while (done() < count - 200 / kFewer) std::this_thread::yield();
  trace.Count(false);
  EXPECT_LE(trace.longest(), 2u);
  EXPECT_TRUE(engine.WaitIdle(absl::Minutes(1)));
}

// Counts the tasks of a lower class that are placed before one of a higher class.
class ClassTrace final : public PlacementTrace {
 public:
  void OnPlaced(const BlockTicket& ticket) override {
    if (ticket.run->priority() == Priority::kHigh) {
      low_before_high.store(low.load());
    } else {
      ++low;
    }
  }
  void OnStart(const BlockTicket&) override {}

  std::atomic<uint32_t> low{0};
  std::atomic<uint32_t> low_before_high{0};
};

// Tasks of a higher class that come while many of a lower one wait, and cores are free.
TEST(EngineLivenessTest, AHigherClassWaitsForNoMoreThanAThread) {
  const std::vector<uint32_t> clusters = {4, 4};
  constexpr uint32_t kExecutors = 2;
  ClassTrace trace;
  Engine::Options options;
  options.chips = MakeTestChips(clusters);
  options.executors = kExecutors;
  options.trace = &trace;
  Engine engine(std::move(options));
  std::vector<TestTask> many(40'000);
  for (uint32_t i = 0; i < many.size(); ++i) {
    many[i].chip = i % 2;
    many[i].core = i % 3 == 0 ? PTO_AIC : PTO_AIV;
  }
  const KernelBody body = [](uint32_t, const pto_context&) {
    Spin(50);
    return 0;
  };
  std::vector<std::shared_ptr<const GraphImage>> high;
  for (uint32_t i = 0; i < 6; ++i) {
    TestTask one;
    one.chip = i % 2;
    one.core = static_cast<pto_core>(PTO_AIC + i % 3);
    high.push_back(MakeTestGraph({one}, clusters, body));
  }
  RunSpec low;
  low.image = MakeTestGraph(many, clusters, body);
  low.priority = Priority::kLow;
  low.record_level = RecordLevel::kNone;
  std::shared_ptr<pto::engine::Run> background = engine.Prepare(std::move(low));
  engine.Start(background);
  while (trace.low < 200) std::this_thread::yield();
  for (uint32_t i = 0; i < 200; ++i) {
    RunSpec spec;
    spec.image = high[i % high.size()];
    spec.priority = Priority::kHigh;
    auto observer = std::make_shared<TestObserver>();
    spec.observer = observer;
    std::shared_ptr<pto::engine::Run> run = engine.Prepare(std::move(spec));
    engine.Start(run);
    const uint32_t before = trace.low;
    observer->WaitFinished();
    // Each thread may have been about to place one.
    const uint32_t placed = trace.low_before_high;
    EXPECT_LE(placed, before + kExecutors) << i;
  }
  engine.Stop(*background, RunState::kCancelled, absl::CancelledError("by the test"));
  EXPECT_TRUE(engine.WaitIdle(absl::Minutes(1)));
}

}  // namespace
}  // namespace pto::engine
