#include "runtime/engine/queue/gang_book.h"

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "runtime/engine/testing/engine_testing.h"

namespace pto::engine {
namespace {

using ::pto::engine::testing::MakeTestGraph;
using ::pto::engine::testing::TestTask;

// The queues of a few chips and their gangs, without threads.
class GangBookTest : public ::testing::Test {
 protected:
  static constexpr uint32_t kClusters = 4;

  explicit GangBookTest(uint32_t chips = 3) : clusters_(chips, kClusters) {
    std::vector<ReadyQueue*> queues;
    for (uint32_t chip = 0; chip < chips; ++chip) {
      queues_.push_back(std::make_unique<ReadyQueue>(chip, kClusters, Clock::Real()));
      queues.push_back(queues_.back().get());
    }
    book_ = std::make_unique<GangBook>(std::move(queues));
  }

  pto::engine::Run& MakeRun(const std::vector<TestTask>& tasks,
                            Priority priority = Priority::kNormal,
                            std::shared_ptr<Account> account = nullptr) {
    RunSpec spec;
    spec.image = MakeTestGraph(tasks, clusters_, nullptr);
    spec.priority = priority;
    spec.account = std::move(account);
    runs_.push_back(std::make_unique<pto::engine::Run>(std::move(spec), 0));
    return *runs_.back();
  }
  // A gang on one chip.
  static TestTask Gang(pto_core kind, uint32_t blocks, uint32_t chip = 0) {
    TestTask task;
    task.chip = chip;
    task.core = kind;
    task.block_num = blocks;
    task.sync_start = true;
    return task;
  }
  static TestTask Group(std::vector<uint32_t> chips, uint32_t blocks) {
    TestTask task;
    task.block_num = blocks;
    task.members = std::move(chips);
    return task;
  }
  static TestTask Plain(pto_core kind, uint32_t blocks = 1) {
    TestTask task;
    task.core = kind;
    task.block_num = blocks;
    return task;
  }

  void Push(pto::engine::Run& run, uint32_t task) {
    queues_[run.image().tasks()[task].chip]->Push(run, {&task, 1});
  }
  bool Take(uint32_t chip, BlockTicket* ticket) {
    std::vector<uint32_t> more;
    const bool taken = queues_[chip]->Take(nullptr, Priority::kLow, 1, ticket, &more);
    See(chip);
    return taken;
  }
  void Release(const BlockTicket& ticket) {
    queues_[ticket.chip]->ReleaseCore(ticket.kind, ticket.core);
    See(ticket.chip);
  }
  void See(uint32_t chip) {
    if (const uint32_t news = queues_[chip]->TakeNews()) {
      book_->Advance(chip, (news & ReadyQueue::kLongHoldEnded) != 0);
    }
  }
  std::vector<BlockTicket> TakeAll(uint32_t chip) {
    std::vector<BlockTicket> tickets;
    BlockTicket ticket;
    while (Take(chip, &ticket)) tickets.push_back(ticket);
    return tickets;
  }
  void ReleaseAll(const std::vector<BlockTicket>& tickets) {
    for (const BlockTicket& ticket : tickets) Release(ticket);
  }

  const std::vector<uint32_t> clusters_;
  std::vector<std::unique_ptr<pto::engine::Run>> runs_;
  std::vector<std::unique_ptr<ReadyQueue>> queues_;
  std::unique_ptr<GangBook> book_;
};

TEST_F(GangBookTest, AllBlocksAreHandedOutOrNone) {
  pto::engine::Run& run = MakeRun({Plain(PTO_AIV), Gang(PTO_AIV, 8)});
  Push(run, 0);
  BlockTicket busy;
  ASSERT_TRUE(Take(0, &busy));
  EXPECT_EQ(book_->Add(run, 1), 0u);
  EXPECT_EQ(book_->waiting(0), 1u);
  BlockTicket ticket;
  EXPECT_FALSE(Take(0, &ticket));
  EXPECT_EQ(queues_[0]->busy_cores(), 1u);  // what is reserved is not busy
  Release(busy);
  const std::vector<BlockTicket> tickets = TakeAll(0);
  ASSERT_EQ(tickets.size(), 8u);  // all vector cores of the chip
  std::set<int32_t> cores;
  for (uint32_t i = 0; i < 8; ++i) {
    EXPECT_EQ(tickets[i].task, 1u);
    EXPECT_EQ(tickets[i].block, i);
    EXPECT_EQ(tickets[i].block_end, i + 1);
    cores.insert(tickets[i].core);
  }
  EXPECT_EQ(cores.size(), 8u);
  EXPECT_EQ(queues_[0]->busy_cores(), 8u);
  EXPECT_TRUE(book_->empty());
}

TEST_F(GangBookTest, OtherKindsGoOnWhileAGangWaits) {
  pto::engine::Run& run =
      MakeRun({Plain(PTO_AIV), Gang(PTO_AIV, 8), Plain(PTO_AIV), Plain(PTO_AIC), Plain(PTO_MIX)});
  Push(run, 0);
  BlockTicket busy, ticket;
  ASSERT_TRUE(Take(0, &busy));
  book_->Add(run, 1);
  EXPECT_TRUE(queues_[0]->GangWaits(Priority::kNormal, PTO_AIV));
  EXPECT_TRUE(queues_[0]->GangWaits(Priority::kLow, PTO_MIX));
  EXPECT_FALSE(queues_[0]->GangWaits(Priority::kNormal, PTO_AIC));
  EXPECT_FALSE(queues_[0]->GangWaits(Priority::kHigh, PTO_AIV));
  Push(run, 2);
  Push(run, 4);
  EXPECT_FALSE(Take(0, &ticket));
  Push(run, 3);
  ASSERT_TRUE(Take(0, &ticket));
  EXPECT_EQ(ticket.task, 3u);
}

TEST_F(GangBookTest, TasksThatWaitedGoBeforeTheNextGang) {
  pto::engine::Run& run = MakeRun({Gang(PTO_AIC, 4), Gang(PTO_AIC, 4), Plain(PTO_AIC, 100)});
  EXPECT_EQ(book_->Add(run, 0), 4u);
  EXPECT_EQ(book_->Add(run, 1), 0u);
  // These are queued after both gangs, and find the cores of the first gang busy.
  Push(run, 2);
  std::vector<BlockTicket> first = TakeAll(0);
  ASSERT_EQ(first.size(), 4u);
  // The second gang is next, because no task waited when the first one was placed.
  ReleaseAll(first);
  std::vector<BlockTicket> second = TakeAll(0);
  ASSERT_EQ(second.size(), 4u);
  EXPECT_EQ(second[0].task, 1u);
  // A third gang must let four blocks go first.
  pto::engine::Run& other = MakeRun({Gang(PTO_AIC, 2)});
  EXPECT_EQ(book_->Add(other, 0), 0u);
  BlockTicket ticket;
  for (uint32_t i = 0; i < 4; ++i) {
    Release(second[i]);
    ASSERT_TRUE(Take(0, &ticket));
    EXPECT_EQ(ticket.run, &run) << i;
    EXPECT_EQ(ticket.block, i);
    second[i] = ticket;
  }
  Release(second[0]);
  EXPECT_FALSE(Take(0, &ticket));
  Release(second[1]);
  ASSERT_TRUE(Take(0, &ticket));
  EXPECT_EQ(ticket.run, &other);
}

TEST_F(GangBookTest, OverlappingGroupsAreServedInOneOrder) {
  pto::engine::Run& run =
      MakeRun({Plain(PTO_AIV), Group({0, 1}, 5), Group({1, 2}, 5), Group({2, 0}, 5)});
  Push(run, 0);
  BlockTicket busy;
  ASSERT_TRUE(Take(0, &busy));
  // 8 cores, 5 for each gang: two gangs never fit on one chip. Chip 0 has 7 free cores.
  EXPECT_EQ(book_->Add(run, 1), 10u);
  EXPECT_EQ(book_->Add(run, 2), 0u);
  EXPECT_EQ(book_->Add(run, 3), 0u);
  std::vector<BlockTicket> on_0 = TakeAll(0);
  std::vector<BlockTicket> on_1 = TakeAll(1);
  ASSERT_EQ(on_0.size(), 5u);
  ASSERT_EQ(on_1.size(), 5u);
  EXPECT_EQ(on_0[0].member, 0u);
  EXPECT_EQ(on_1[0].member, 1u);
  EXPECT_EQ(on_1[0].chip, 1u);
  EXPECT_TRUE(TakeAll(2).empty());
  // A free chip 0 does not help the third gang: the second one is before it on chip 2.
  ReleaseAll(on_0);
  EXPECT_TRUE(TakeAll(0).empty());
  EXPECT_TRUE(TakeAll(2).empty());
  ReleaseAll(on_1);
  on_1 = TakeAll(1);
  std::vector<BlockTicket> on_2 = TakeAll(2);
  ASSERT_EQ(on_1.size(), 5u);
  ASSERT_EQ(on_2.size(), 5u);
  EXPECT_EQ(on_2[0].task, 2u);
  ReleaseAll(on_2);
  on_2 = TakeAll(2);
  on_0 = TakeAll(0);
  ASSERT_EQ(on_2.size(), 5u);
  ASSERT_EQ(on_0.size(), 5u);
  EXPECT_EQ(on_2[0].task, 3u);
  EXPECT_EQ(on_2[0].member, 0u);
  EXPECT_EQ(on_0[0].member, 1u);
}

TEST_F(GangBookTest, AHigherClassTakesOverWhatIsReserved) {
  pto::engine::Run& low = MakeRun({Plain(PTO_AIC), Gang(PTO_AIC, 4)}, Priority::kLow);
  pto::engine::Run& high = MakeRun({Gang(PTO_AIC, 3)}, Priority::kHigh);
  Push(low, 0);
  BlockTicket busy;
  ASSERT_TRUE(Take(0, &busy));
  EXPECT_EQ(book_->Add(low, 1), 0u);
  EXPECT_EQ(book_->Add(high, 0), 3u);
  const std::vector<BlockTicket> first = TakeAll(0);
  ASSERT_EQ(first.size(), 3u);
  EXPECT_EQ(first[0].run, &high);
  Release(busy);
  ReleaseAll(first);
  EXPECT_EQ(TakeAll(0).size(), 4u);
}

TEST_F(GangBookTest, AGroupThatLosesOneChipToAHigherClassGetsItBack) {
  pto::engine::Run& low = MakeRun({Plain(PTO_AIV), Group({0, 1}, 8)}, Priority::kLow);
  pto::engine::Run& high = MakeRun({Gang(PTO_AIV, 8, 1)}, Priority::kHigh);
  Push(low, 0);
  BlockTicket busy;
  ASSERT_TRUE(Take(0, &busy));
  EXPECT_EQ(book_->Add(low, 1), 0u);  // complete on chip 1, short on chip 0
  EXPECT_EQ(book_->Add(high, 0), 8u);
  Release(busy);  // now complete on chip 0
  EXPECT_TRUE(TakeAll(0).empty());
  ReleaseAll(TakeAll(1));
  EXPECT_EQ(TakeAll(0).size(), 8u);
  EXPECT_EQ(TakeAll(1).size(), 8u);
}

TEST_F(GangBookTest, TasksOfAHigherClassGetBackWhatIsReserved) {
  pto::engine::Run& low =
      MakeRun({Plain(PTO_AIC), Gang(PTO_AIC, 4), Plain(PTO_AIC)}, Priority::kLow);
  pto::engine::Run& high = MakeRun({Plain(PTO_AIC, 2)}, Priority::kHigh);
  Push(low, 0);
  BlockTicket busy;
  ASSERT_TRUE(Take(0, &busy));
  EXPECT_EQ(book_->Add(low, 1), 0u);
  Push(low, 2);
  Push(high, 0);
  std::vector<BlockTicket> taken = TakeAll(0);
  ASSERT_EQ(taken.size(), 2u);
  EXPECT_EQ(taken[0].run, &high);
  Release(busy);
  ReleaseAll(taken);
  taken = TakeAll(0);
  ASSERT_EQ(taken.size(), 4u);
  EXPECT_EQ(taken[0].task, 1u);
}

// A task is ready and cores become free for it while all workers sleep: one must be woken.
TEST_F(GangBookTest, SaysThatCoresAreGivenBackWhenAGangIsDisplaced) {
  pto::engine::Run& normal = MakeRun({Plain(PTO_AIV), Gang(PTO_AIV, 8), Plain(PTO_AIV)});
  TestTask there = Plain(PTO_AIV);
  there.chip = 1;
  pto::engine::Run& high = MakeRun({there, Group({0, 1}, 8)}, Priority::kHigh);
  Push(normal, 0);
  Push(high, 0);
  BlockTicket here, on_1, ticket;
  ASSERT_TRUE(Take(0, &here));
  ASSERT_TRUE(Take(1, &on_1));
  EXPECT_EQ(book_->Add(normal, 1), 0u);  // has the other cores of chip 0
  Push(normal, 2);
  EXPECT_FALSE(Take(0, &ticket));
  EXPECT_GE(book_->Add(high, 1), 1u);
}

TEST_F(GangBookTest, AHigherClassTakesWhatAGangHasWhollyCollected) {
  pto::engine::Run& low = MakeRun({Plain(PTO_AIV), Group({0, 1}, 8)}, Priority::kLow);
  TestTask there = Plain(PTO_AIV);
  there.chip = 1;
  pto::engine::Run& high = MakeRun({there}, Priority::kHigh);
  Push(low, 0);
  BlockTicket busy, ticket;
  ASSERT_TRUE(Take(0, &busy));
  EXPECT_EQ(book_->Add(low, 1), 0u);
  EXPECT_EQ(queues_[1]->reservation_view().have, 8u);
  Push(high, 0);
  ASSERT_TRUE(Take(1, &ticket));
  EXPECT_EQ(ticket.run, &high);
  // The gang has stopped on its other chip too, and continues when all cores are free.
  Release(busy);
  EXPECT_TRUE(TakeAll(0).empty());
  Release(ticket);
  EXPECT_EQ(TakeAll(0).size(), 8u);
  EXPECT_EQ(TakeAll(1).size(), 8u);
}

// A gang does not release cores for a task that cannot use them.
TEST_F(GangBookTest, AHigherClassThatWaitsForOtherCoresLeavesAGangAlone) {
  pto::engine::Run& low = MakeRun({Plain(PTO_AIV), Gang(PTO_AIV, 8)}, Priority::kLow);
  pto::engine::Run& high = MakeRun({Plain(PTO_AIC, 5)}, Priority::kHigh);
  Push(high, 0);
  EXPECT_EQ(TakeAll(0).size(), 4u);  // all cube cores; one block waits
  Push(low, 0);
  BlockTicket busy, ticket;
  ASSERT_TRUE(Take(0, &busy));
  EXPECT_EQ(book_->Add(low, 1), 0u);
  EXPECT_EQ(queues_[0]->reservation_view().have, 7u);
  EXPECT_FALSE(Take(0, &ticket));
  EXPECT_EQ(queues_[0]->reservation_view().have, 7u);
  Release(busy);
  EXPECT_EQ(TakeAll(0).size(), 8u);
}

// Blocks that do not end hold clusters, in part or as a whole. A task that waits for a cluster must
// not delay a gang forever.
TEST_F(GangBookTest, ATaskThatGetsNoClusterKeepsNoGangWaiting) {
  pto::engine::Run& holds = MakeRun({Plain(PTO_MIX, 2), Plain(PTO_AIC, 2)});
  pto::engine::Run& high = MakeRun({Plain(PTO_MIX)}, Priority::kHigh);
  pto::engine::Run& low = MakeRun({Gang(PTO_AIV, 4)}, Priority::kLow);
  Push(holds, 0);
  Push(holds, 1);
  ASSERT_EQ(TakeAll(0).size(), 4u);
  Push(high, 0);
  BlockTicket ticket;
  EXPECT_FALSE(Take(0, &ticket));
  EXPECT_EQ(book_->Add(low, 0), 0u);
  while (queues_[0]->CheckPatience() != 0) See(0);
  See(0);
  EXPECT_EQ(TakeAll(0).size(), 4u);
  EXPECT_TRUE(book_->empty());
}

// A gang on two chips, one of which has a block that does not end.
TEST_F(GangBookTest, ABlockedGangLetsTheGangsBehindItPass) {
  pto::engine::Run& run = MakeRun({Plain(PTO_AIV), Group({0, 1}, 8), Gang(PTO_AIV, 8, 1)});
  Push(run, 0);
  BlockTicket busy;
  ASSERT_TRUE(Take(0, &busy));
  queues_[0]->own_view(busy.core).wait = CoreView::kWaits;
  EXPECT_EQ(book_->Add(run, 1), 0u);
  EXPECT_EQ(book_->Add(run, 2), 8u);
  EXPECT_EQ(queues_[0]->reservation_view().idle_cores, 0u);
  const std::vector<BlockTicket> second = TakeAll(1);
  ASSERT_EQ(second.size(), 8u);
  ReleaseAll(second);
  EXPECT_TRUE(TakeAll(1).empty());
  Release(busy);
  EXPECT_EQ(TakeAll(0).size(), 8u);
  EXPECT_EQ(TakeAll(1).size(), 8u);
  EXPECT_TRUE(book_->empty());
}

TEST_F(GangBookTest, ClustersAreCollectedInParts) {
  pto::engine::Run& run = MakeRun({Plain(PTO_AIV, 8), Plain(PTO_AIC, 4), Gang(PTO_MIX, 3)});
  Push(run, 0);
  Push(run, 1);
  std::vector<BlockTicket> busy = TakeAll(0);
  ASSERT_EQ(busy.size(), 12u);  // everything; AIC first, then AIV in order
  EXPECT_EQ(book_->Add(run, 2), 0u);
  // Cluster 3 remains busy. The cores of the others become free one by one.
  for (uint32_t i = 0; i < 12; ++i) {
    const bool of_last = busy[i].core == 3 || busy[i].core >= 10;
    if (of_last) continue;
    BlockTicket ticket;
    EXPECT_FALSE(Take(0, &ticket));
    Release(busy[i]);
  }
  const std::vector<BlockTicket> placed = TakeAll(0);
  ASSERT_EQ(placed.size(), 3u);
  for (uint32_t i = 0; i < 3; ++i) EXPECT_EQ(placed[i].core, static_cast<int32_t>(i));
  EXPECT_EQ(queues_[0]->busy_cores(), 12u);
}

TEST_F(GangBookTest, ClustersThatAGangDoesNotNeedStayInUse) {
  pto::engine::Run& run = MakeRun({Plain(PTO_AIV, 9), Gang(PTO_MIX, 2)});
  Push(run, 0);
  std::vector<BlockTicket> busy = TakeAll(0);
  ASSERT_EQ(busy.size(), 8u);
  EXPECT_EQ(book_->Add(run, 1), 0u);
  // The gang first collects cluster 0, then prefers clusters 1 and 2, which are entirely free.
  BlockTicket ticket;
  Release(busy[0]);
  EXPECT_FALSE(Take(0, &ticket));
  for (const uint32_t i : {2u, 3u, 4u}) Release(busy[i]);
  EXPECT_TRUE(book_->waiting(0) == 1);
  Release(busy[5]);
  std::vector<BlockTicket> placed = TakeAll(0);
  ASSERT_EQ(placed.size(), 3u);
  EXPECT_EQ(placed[0].core, 1);
  EXPECT_EQ(placed[1].core, 2);
  EXPECT_EQ(placed[2].task, 0u);  // on the core of cluster 0
  EXPECT_EQ(placed[2].core, busy[0].core);
}

TEST_F(GangBookTest, WhatIsRemovedMakesWay) {
  pto::engine::Run& stopped = MakeRun({Plain(PTO_AIV), Group({0, 1}, 8), Group({0, 1}, 8)});
  pto::engine::Run& other = MakeRun({Gang(PTO_AIV, 8, 1), Plain(PTO_AIV)});
  Push(stopped, 0);
  BlockTicket busy, ticket;
  ASSERT_TRUE(Take(0, &busy));
  EXPECT_EQ(book_->Add(stopped, 1), 0u);
  EXPECT_EQ(book_->Add(stopped, 2), 0u);
  EXPECT_EQ(book_->Add(other, 0), 0u);
  Push(other, 1);
  EXPECT_FALSE(Take(0, &ticket));
  uint32_t task = 0;
  uint64_t ready = 0;
  ASSERT_TRUE(book_->Remove(stopped, &task, &ready));
  EXPECT_EQ(task, 1u);
  EXPECT_EQ(ready, 9u);  // the other run's, and its task that waits
  EXPECT_FALSE(Take(0, &ticket));
  ASSERT_TRUE(book_->Remove(stopped, &task, &ready));
  EXPECT_EQ(task, 2u);
  EXPECT_EQ(ready, 1u);
  EXPECT_FALSE(book_->Remove(stopped, &task, &ready));
  EXPECT_TRUE(Take(0, &ticket));
  EXPECT_EQ(ticket.run, &other);
}

// Only one gang of this width fits on the chip at a time.
TEST_F(GangBookTest, RunsWithManyGangsDoNotKeepOthersWaiting) {
  const TestTask gang = Gang(PTO_AIC, 3);
  pto::engine::Run& many = MakeRun(std::vector<TestTask>(12, gang));
  pto::engine::Run& few = MakeRun({gang, gang});
  for (uint32_t task = 0; task < 12; ++task) book_->Add(many, task);
  for (uint32_t task = 0; task < 2; ++task) book_->Add(few, task);
  std::string order;
  while (true) {
    const std::vector<BlockTicket> placed = TakeAll(0);
    if (placed.empty()) break;
    EXPECT_EQ(placed.size(), 3u);
    order += placed[0].run == &few ? 'f' : 'm';
    ReleaseAll(placed);
  }
  EXPECT_EQ(order.size(), 14u);
  EXPECT_LE(order.rfind('f'), 7u) << order;
}

TEST_F(GangBookTest, AccountsGetGangsByWeight) {
  const std::vector<TestTask> gangs(40, Gang(PTO_AIC, 3));
  pto::engine::Run& light =
      MakeRun(gangs, Priority::kNormal, std::make_shared<Account>("light", 1));
  pto::engine::Run& heavy =
      MakeRun(gangs, Priority::kNormal, std::make_shared<Account>("heavy", 3));
  for (uint32_t task = 0; task < gangs.size(); ++task) book_->Add(light, task);
  for (uint32_t task = 0; task < gangs.size(); ++task) book_->Add(heavy, task);
  uint32_t of_heavy = 0;
  for (int placed = 0; placed < 40; ++placed) {
    const std::vector<BlockTicket> tickets = TakeAll(0);
    ASSERT_EQ(tickets.size(), 3u);
    of_heavy += tickets[0].run == &heavy ? 1 : 0;
    ReleaseAll(tickets);
  }
  EXPECT_NEAR(of_heavy, 30, 2);
}

TEST_F(GangBookTest, LanesOfAClusterAreHandedOutTogether) {
  TestTask mixed = Plain(PTO_MIX, 2);
  mixed.vector_kernels = 2;
  pto::engine::Run& run = MakeRun({mixed, Plain(PTO_AIC)});
  Push(run, 0);
  Push(run, 1);
  std::vector<BlockTicket> tickets = TakeAll(0);
  ASSERT_EQ(tickets.size(), 7u);
  for (uint32_t i = 0; i < 6; ++i) {
    EXPECT_EQ(tickets[i].block, i / 3);
    EXPECT_EQ(tickets[i].cluster_lane, i % 3);
  }
  EXPECT_EQ(tickets[3].core, 1);
  EXPECT_EQ(tickets[4].core, static_cast<int32_t>(kClusters) + 2);
  EXPECT_EQ(tickets[5].core, static_cast<int32_t>(kClusters) + 3);
  EXPECT_EQ(queues_[0]->busy_cores(), 7u);
  Release(tickets[2]);
  Release(tickets[0]);
  EXPECT_EQ(queues_[0]->busy_cores(), 7u);
  Release(tickets[1]);
  EXPECT_EQ(queues_[0]->busy_cores(), 4u);
}

TEST_F(GangBookTest, LanesOfAGang) {
  TestTask mixed = Gang(PTO_MIX, 4);
  mixed.vector_kernels = 1;
  pto::engine::Run& run = MakeRun({mixed});
  EXPECT_EQ(run.image().calls(0), 8u);
  EXPECT_EQ(book_->Add(run, 0), 8u);
  const std::vector<BlockTicket> tickets = TakeAll(0);
  ASSERT_EQ(tickets.size(), 8u);
  ReleaseAll(tickets);
  EXPECT_EQ(queues_[0]->busy_cores(), 0u);
}

}  // namespace
}  // namespace pto::engine
