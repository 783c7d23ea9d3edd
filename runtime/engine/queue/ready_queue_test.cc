#include "runtime/engine/queue/ready_queue.h"

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "runtime/engine/testing/engine_testing.h"

namespace pto::engine {
namespace {

using ::pto::engine::testing::MakeTestGraph;
using ::pto::engine::testing::TestTask;

std::unique_ptr<pto::engine::Run> MakeRun(const std::vector<TestTask>& tasks, uint32_t clusters,
                                          Priority priority = Priority::kNormal) {
  RunSpec spec;
  spec.priority = priority;
  spec.image = MakeTestGraph(tasks, {clusters}, nullptr);
  return std::make_unique<pto::engine::Run>(std::move(spec), 0);
}

TEST(ReadyQueueTest, HandsOutAsManyBlocksAsThereAreCores) {
  auto run = MakeRun({{{}, 0, PTO_AIC, 5}}, 2);
  ReadyQueue queue(0, 2, Clock::Real());
  const uint32_t task = 0;
  queue.Push(*run, {&task, 1});
  EXPECT_EQ(queue.ready(), 1u);
  BlockTicket first, second, third;
  std::vector<uint32_t> more;
  ASSERT_TRUE(queue.Take(nullptr, Priority::kLow, 1, &first, &more));
  ASSERT_TRUE(queue.Take(nullptr, Priority::kLow, 1, &second, &more));
  EXPECT_EQ(first.block, 0u);
  EXPECT_EQ(second.block, 1u);
  EXPECT_NE(first.core, second.core);
  EXPECT_FALSE(queue.Take(nullptr, Priority::kLow, 1, &third, &more));
  EXPECT_EQ(queue.busy_cores(), 2u);
  queue.ReleaseCore(PTO_AIC, first.core);
  ASSERT_TRUE(queue.Take(nullptr, Priority::kLow, 1, &third, &more));
  EXPECT_EQ(third.block, 2u);
  EXPECT_EQ(queue.ready(), 1u);  // blocks 3 and 4 are still to come
}

TEST(ReadyQueueTest, RootsComeInPortionsAndBeforeWhatIsQueuedLater) {
  auto run = MakeRun({{}, {}, {}, {}, {}, {{0}}, {{0}}}, 8);
  ReadyQueue queue(0, 8, Clock::Real());
  ASSERT_TRUE(run->image().alike());
  queue.PushRoots(*run);
  EXPECT_EQ(queue.ready(), 5u);
  BlockTicket ticket;
  std::vector<uint32_t> more;
  ASSERT_TRUE(queue.Take(nullptr, Priority::kLow, 3, &ticket, &more));
  EXPECT_EQ(ticket.task, 0u);
  EXPECT_EQ(more, (std::vector<uint32_t>{1, 2}));
  EXPECT_EQ(queue.ready(), 2u);
  const std::vector<uint32_t> later = {5, 6};
  queue.Push(*run, later);
  ASSERT_TRUE(queue.Take(nullptr, Priority::kLow, 1, &ticket, &more));
  EXPECT_EQ(ticket.task, 3u);
  EXPECT_TRUE(more.empty());
  ASSERT_TRUE(queue.Take(nullptr, Priority::kLow, 10, &ticket, &more));
  EXPECT_EQ(ticket.task, 4u);
  EXPECT_EQ(more, later);
  EXPECT_EQ(queue.ready(), 0u);
  EXPECT_FALSE(queue.Take(nullptr, Priority::kLow, 10, &ticket, &more));
}

TEST(ReadyQueueTest, WhoComesInVainLeavesTheTurnAsItIs) {
  const std::vector<TestTask> two = {{{}, 0, PTO_AIC}, {{}, 0, PTO_AIC}};
  auto a = MakeRun(two, 1);
  auto b = MakeRun(two, 1);
  ReadyQueue queue(0, 1, Clock::Real());
  const std::vector<uint32_t> tasks = {0, 1};
  queue.Push(*a, tasks);
  queue.Push(*b, tasks);
  std::vector<pto::engine::Run*> turns;
  BlockTicket ticket;
  std::vector<uint32_t> more;
  for (int i = 0; i < 4; ++i) {
    ASSERT_TRUE(queue.Take(nullptr, Priority::kLow, 1, &ticket, &more));
    turns.push_back(ticket.run);
    // There is one cube core only.
    BlockTicket none;
    for (int tries = 0; tries <= i; ++tries)
      EXPECT_FALSE(queue.Take(nullptr, Priority::kLow, 1, &none, &more));
    queue.ReleaseCore(PTO_AIC, ticket.core);
  }
  EXPECT_EQ(turns, (std::vector<pto::engine::Run*>{a.get(), b.get(), a.get(), b.get()}));
}

// The number of tasks for single cores that start before a task for a cluster that was queued when
// all cores were busy. Cores become free one by one, in random order.
uint32_t StartedBeforeACluster(Priority singles, Priority cluster, uint32_t seed) {
  constexpr uint32_t kClusters = 4;
  std::vector<TestTask> many;
  for (uint32_t i = 0; i < 600; ++i) many.push_back({{}, 0, i % 3 == 0 ? PTO_AIC : PTO_AIV});
  auto low = MakeRun(many, kClusters, singles);
  auto high = MakeRun({{{}, 0, PTO_MIX}}, kClusters, cluster);
  ReadyQueue queue(0, kClusters, Clock::Real());
  for (uint32_t task = 0; task < many.size(); ++task) queue.Push(*low, {&task, 1});
  std::vector<BlockTicket> running;
  BlockTicket ticket;
  std::vector<uint32_t> more;
  while (queue.Take(nullptr, Priority::kLow, 1, &ticket, &more)) running.push_back(ticket);
  EXPECT_EQ(running.size(), 3 * kClusters);
  const uint32_t task = 0;
  queue.Push(*high, {&task, 1});
  std::mt19937 random(seed);
  uint32_t started = 0;
  while (!running.empty()) {
    std::swap(running[random() % running.size()], running.back());
    queue.ReleaseCore(running.back().kind, running.back().core);
    running.pop_back();
    while (queue.Take(nullptr, Priority::kLow, 1, &ticket, &more)) {
      if (ticket.run == high.get()) return started;
      running.push_back(ticket);
      ++started;
    }
  }
  ADD_FAILURE() << "the cluster's task never started";
  return started;
}

TEST(ReadyQueueTest, ATaskForAClusterIsNotStarvedByThoseForSingleCores) {
  for (uint32_t seed = 0; seed < 100; ++seed) {
    // Three cores of one cluster have to be hit by chance, of twelve, each once.
    EXPECT_LE(StartedBeforeACluster(Priority::kLow, Priority::kHigh, seed), 100u) << seed;
    EXPECT_LE(StartedBeforeACluster(Priority::kNormal, Priority::kNormal, seed), 100u) << seed;
  }
}

TEST(ReadyQueueTest, ReservedClustersAreFreeAgainWhenNobodyWantsThem) {
  auto singles = MakeRun({{{}, 0, PTO_AIC}, {{}, 0, PTO_AIV, 2}}, 1, Priority::kLow);
  auto cluster = MakeRun({{{}, 0, PTO_MIX}}, 1, Priority::kHigh);
  ReadyQueue queue(0, 1, Clock::Real());
  const uint32_t aic = 0, aiv = 1;
  queue.Push(*singles, {&aic, 1});
  BlockTicket busy, ticket;
  std::vector<uint32_t> more;
  ASSERT_TRUE(queue.Take(nullptr, Priority::kLow, 1, &busy, &more));
  queue.Push(*cluster, {&aic, 1});
  queue.Push(*singles, {&aiv, 1});
  EXPECT_FALSE(queue.Take(nullptr, Priority::kLow, 1, &ticket, &more));
  EXPECT_EQ(queue.reservation_view().idle_cores, 2u);
  EXPECT_TRUE(queue.reserving());
  // Its patience expires: the others get the cores.
  const int64_t next = queue.CheckPatience();
  EXPECT_GT(next, Clock::Real().NowNanos());
  while (queue.CheckPatience() != 0) {
  }
  EXPECT_NE(queue.TakeNews() & ReadyQueue::kCoresFreed, 0u);
  EXPECT_EQ(queue.reservation_view().idle_cores, 0u);
  ASSERT_TRUE(queue.Take(nullptr, Priority::kLow, 1, &ticket, &more));
  EXPECT_EQ(ticket.run, singles.get());
  queue.ReleaseCore(ticket.kind, ticket.core);
  // The cluster has no long hold any more, so its task is next.
  queue.ReleaseCore(busy.kind, busy.core);
  ASSERT_TRUE(queue.Take(nullptr, Priority::kLow, 1, &ticket, &more));
  EXPECT_EQ(ticket.run, cluster.get());
}

TEST(ReadyQueueTest, ServesRunsInTurn) {
  auto a = MakeRun({{}, {}, {}}, 8);
  auto b = MakeRun({{}, {}, {}}, 8);
  ReadyQueue queue(0, 8, Clock::Real());
  const std::vector<uint32_t> tasks = {0, 1, 2};
  queue.Push(*a, tasks);
  queue.Push(*b, tasks);
  std::vector<pto::engine::Run*> turns;
  BlockTicket ticket;
  std::vector<uint32_t> more;
  while (queue.Take(nullptr, Priority::kLow, 1, &ticket, &more)) turns.push_back(ticket.run);
  EXPECT_EQ(turns,
            (std::vector<pto::engine::Run*>{a.get(), b.get(), a.get(), b.get(), a.get(), b.get()}));
  EXPECT_EQ(queue.ready(), 0u);
}

TEST(ReadyQueueTest, TakesOfOneRunOnly) {
  auto a = MakeRun({{}, {}}, 8);
  auto b = MakeRun({{}, {}}, 8);
  ReadyQueue queue(0, 8, Clock::Real());
  const std::vector<uint32_t> tasks = {0, 1};
  queue.Push(*a, tasks);
  queue.Push(*b, tasks);
  BlockTicket ticket;
  std::vector<uint32_t> more;
  ASSERT_TRUE(queue.Take(b.get(), Priority::kLow, 1, &ticket, &more));
  EXPECT_EQ(ticket.run, b.get());
  ASSERT_TRUE(queue.Take(b.get(), Priority::kLow, 1, &ticket, &more));
  EXPECT_EQ(ticket.run, b.get());
  EXPECT_FALSE(queue.Take(b.get(), Priority::kLow, 1, &ticket, &more));
  EXPECT_EQ(queue.ready(), 2u);
}

TEST(ReadyQueueTest, HandsOutSeveralForOneCore) {
  auto run = MakeRun({{}, {}, {{}, 0, PTO_AIV, 5}, {}, {{}, 0, PTO_AIC}}, 8);
  ReadyQueue queue(0, 8, Clock::Real());
  queue.Push(*run, std::vector<uint32_t>{0, 1, 2, 3, 4});
  BlockTicket ticket;
  std::vector<uint32_t> more = {99};
  // The cube core's line comes first and has only one task.
  ASSERT_TRUE(queue.Take(nullptr, Priority::kLow, 10, &ticket, &more));
  EXPECT_EQ(ticket.task, 4u);
  EXPECT_TRUE(more.empty());
  // Up to the task with several blocks.
  ASSERT_TRUE(queue.Take(nullptr, Priority::kLow, 10, &ticket, &more));
  EXPECT_EQ(ticket.task, 0u);
  EXPECT_EQ(more, std::vector<uint32_t>{1});
  EXPECT_EQ(queue.ready(), 2u);
  ASSERT_TRUE(queue.Take(nullptr, Priority::kLow, 3, &ticket, &more));
  EXPECT_EQ(ticket.task, 2u);
  EXPECT_EQ(ticket.block, 0u);
  EXPECT_EQ(ticket.block_end, 3u);
  EXPECT_TRUE(more.empty());
  ASSERT_TRUE(queue.Take(nullptr, Priority::kLow, 3, &ticket, &more));
  EXPECT_EQ(ticket.block, 3u);
  EXPECT_EQ(ticket.block_end, 5u);
  EXPECT_EQ(queue.ready(), 1u);
  ASSERT_TRUE(queue.Take(nullptr, Priority::kLow, 3, &ticket, &more));
  EXPECT_EQ(ticket.task, 3u);
  EXPECT_EQ(queue.ready(), 0u);
}

TEST(ReadyQueueTest, AHigherClassGoesFirst) {
  auto low = MakeRun({{}, {{}, 0, PTO_MIX}}, 8, Priority::kLow);
  auto high = MakeRun({{}, {}}, 8, Priority::kHigh);
  ReadyQueue queue(0, 8, Clock::Real());
  queue.Push(*low, std::vector<uint32_t>{0, 1});
  queue.Push(*high, std::vector<uint32_t>{0, 1});
  EXPECT_TRUE(queue.OthersWait(*low));
  EXPECT_FALSE(queue.OthersWait(*high));
  BlockTicket ticket;
  std::vector<uint32_t> more;
  // A thread that helps the lower run must wait too.
  EXPECT_FALSE(queue.Take(low.get(), Priority::kLow, 1, &ticket, &more));
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(queue.Take(nullptr, Priority::kLow, 1, &ticket, &more));
    EXPECT_EQ(ticket.run, high.get());
  }
  ASSERT_TRUE(queue.Take(low.get(), Priority::kLow, 1, &ticket, &more));
  EXPECT_EQ(ticket.run, low.get());
}

TEST(ReadyQueueTest, KnowsWhetherOthersWait) {
  auto a = MakeRun({{}, {}}, 8);
  auto b = MakeRun({{}}, 8);
  ReadyQueue queue(0, 8, Clock::Real());
  EXPECT_FALSE(queue.OthersWait(*a));
  queue.Push(*a, std::vector<uint32_t>{0, 1});
  EXPECT_FALSE(queue.OthersWait(*a));
  EXPECT_TRUE(queue.OthersWait(*b));
  queue.Push(*b, std::vector<uint32_t>{0});
  EXPECT_TRUE(queue.OthersWait(*a));
}

TEST(ReadyQueueTest, AWaitingTaskIsNotOvertaken) {
  auto run = MakeRun({{{}, 0, PTO_AIC}, {{}, 0, PTO_AIC}}, 1);
  ReadyQueue queue(0, 1, Clock::Real());
  const uint32_t task = 0;
  int32_t core = -1;
  ASSERT_TRUE(queue.TakeCore(*run, PTO_AIC, &core));
  EXPECT_FALSE(queue.TakeCore(*run, PTO_AIC, &core));
  queue.Push(*run, {&task, 1});
  queue.ReleaseCore(PTO_AIC, 0);
  EXPECT_FALSE(queue.TakeCore(*run, PTO_AIC, &core));
  BlockTicket ticket;
  std::vector<uint32_t> more;
  EXPECT_TRUE(queue.Take(nullptr, Priority::kLow, 1, &ticket, &more));
}

}  // namespace
}  // namespace pto::engine
