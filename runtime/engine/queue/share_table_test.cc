#include "runtime/engine/queue/share_table.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "runtime/base/clock.h"
#include "runtime/base/core_time.h"
#include "runtime/base/ticks.h"

namespace pto::engine {
namespace {

// Accounts with one flow each on one chip. The flows always have ready tasks.
class ShareTableTest : public ::testing::Test {
 protected:
  static constexpr uint32_t kCore = 5;

  // Serves the line for a number of turns. A turn of account i takes `took[i]`.
  std::vector<absl::Duration> Serve(uint32_t turns, const std::vector<absl::Duration>& took) {
    std::vector<absl::Duration> used(flows_.size());
    for (uint32_t turn = 0; turn < turns; ++turn) {
      Flow& flow = table_.Next(line_);
      table_.Serve(flow, line_);
      const auto i = static_cast<size_t>(&flow - flows_.data());
      table_.Take(*flow.share, kCore, PTO_AIV);
      clock_.Advance(took[i]);
      table_.Return(kCore);
      used[i] += took[i];
    }
    return used;
  }
  void AddAll(const std::vector<uint32_t>& weights) {
    flows_ = std::vector<Flow>(weights.size());
    for (size_t i = 0; i < weights.size(); ++i) {
      accounts_.push_back(std::make_shared<Account>("a", weights[i]));
      table_.Add(flows_[i], accounts_[i], line_);
    }
  }
  static double Part(const std::vector<absl::Duration>& used) {
    absl::Duration all;
    for (const absl::Duration one : used) all += one;
    return absl::FDivDuration(used[0], all);
  }

  ManualClock clock_;
  ShareTable table_{12, clock_};
  const Line line_ = LineOf(Priority::kNormal, PTO_AIV);
  std::vector<std::shared_ptr<Account>> accounts_;
  std::vector<Flow> flows_;
};

// Waits until the processor's counter has gone on by so many ticks.
void PassTicks(uint64_t ticks) {
  const uint64_t begin = Ticks();
  while (Ticks() - begin < ticks) {
  }
}

// What an account counts is measured also while it is alone, when no clock is read.
TEST_F(ShareTableTest, AnAccountCountsTheTimeOfItsCores) {
  const auto time = std::make_shared<CoreTime>();
  const auto account = std::make_shared<Account>("a", 1, "", nullptr, time);
  Share& share = table_.Of(account);
  const uint64_t begin = Ticks();
  table_.Take(share, kCore, PTO_AIV);
  table_.Take(share, 0, PTO_MIX);
  const uint64_t taken = Ticks();
  PassTicks(100'000);
  // What is held counts until now, and not a second time.
  const uint64_t settled = Ticks();
  table_.SettleCoreTime();
  const uint64_t first = time->Take();
  EXPECT_GE(first, 4 * (settled - taken));
  EXPECT_LE(first, 4 * (Ticks() - begin));
  table_.SettleCoreTime();
  const uint64_t released = Ticks();
  table_.Return(0);
  PassTicks(100'000);
  table_.Return(kCore);
  table_.SettleCoreTime();
  const uint64_t second = time->Take();
  EXPECT_GE(second, uint64_t{100'000});
  EXPECT_LE(second, 4 * (released - settled) + 4 * (Ticks() - released));
  // Nothing is held any more.
  PassTicks(1000);
  table_.SettleCoreTime();
  EXPECT_EQ(time->Take(), 0u);
}

TEST_F(ShareTableTest, APartOfACoreCountsAsTheWholeForItsAccount) {
  const auto time = std::make_shared<CoreTime>();
  const auto account = std::make_shared<Account>("a", 1, "", nullptr, time);
  const uint64_t taken = Ticks();
  table_.Take(table_.Of(account), kCore, PTO_AIV, ShareTable::From::kBegin, 0.01);
  PassTicks(100'000);
  table_.Return(kCore);
  table_.SettleCoreTime();
  const uint64_t ticks = time->Take();
  EXPECT_GE(ticks, uint64_t{100'000});
  EXPECT_LE(ticks, Ticks() - taken);
}

TEST_F(ShareTableTest, AnAccountThatGoesHasCountedItsTime) {
  const auto time = std::make_shared<CoreTime>();
  const auto account = std::make_shared<Account>("a", 1, "", nullptr, time);
  table_.Take(table_.Of(account), kCore, PTO_AIV);
  PassTicks(100'000);
  table_.Return(kCore);
  // Others come, and the table keeps no shares that nobody needs.
  for (const char* name : {"b", "c"}) table_.Of(std::make_shared<Account>(name));
  ASSERT_EQ(account.use_count(), 1);
  EXPECT_GE(time->Take(), uint64_t{100'000});
}

TEST_F(ShareTableTest, LinesAreInOrderOfService) {
  EXPECT_EQ(LineOf(Priority::kHigh, PTO_MIX), 0u);
  EXPECT_EQ(LineOf(Priority::kHigh, PTO_AIV), 2u);
  EXPECT_EQ(LineOf(Priority::kNormal, PTO_MIX), 3u);
  EXPECT_EQ(LineOf(Priority::kLow, PTO_AIV), 8u);
  for (Line line = 0; line < kLineCount; ++line) {
    EXPECT_EQ(LineOf(static_cast<Priority>(2 - line / 3), KindOf(line)), line);
  }
}

TEST_F(ShareTableTest, EqualAccountsGetEqualTime) {
  AddAll({1, 1});
  // The first account's tasks take longer, so it gets fewer turns.
  EXPECT_NEAR(Part(Serve(1000, {absl::Milliseconds(7), absl::Microseconds(300)})), 0.5, 0.02);
}

TEST_F(ShareTableTest, TimeGoesByWeight) {
  AddAll({3, 1});
  EXPECT_NEAR(Part(Serve(1000, {absl::Milliseconds(1), absl::Milliseconds(1)})), 0.75, 0.02);
}

TEST_F(ShareTableTest, CoresThatAreHeldCountBeforeTheyAreReturned) {
  AddAll({1, 1});
  Flow& holder = table_.Next(line_);
  Flow& other = &holder == &flows_[0] ? flows_[1] : flows_[0];
  table_.Serve(holder, line_);
  table_.Take(*holder.share, kCore, PTO_AIV);
  // The other one has used more by now, as long as the core is not counted.
  table_.Serve(other, line_);
  table_.Take(*other.share, kCore + 1, PTO_AIV);
  clock_.Advance(absl::Milliseconds(1));
  table_.Return(kCore + 1);
  EXPECT_TRUE(table_.IsNext(holder, line_));
  clock_.Advance(absl::Seconds(1));
  table_.CountHeld();
  EXPECT_TRUE(table_.IsNext(other, line_));
  // In the end all of it has counted once.
  const double used = holder.share->used_ns;
  table_.Return(kCore);
  EXPECT_NEAR(holder.share->used_ns, used, 1);
  EXPECT_NEAR(used, 1.001e9, 1e5);
}

TEST_F(ShareTableTest, TellsWhoWaits) {
  AddAll({1, 1});
  const auto is_first = [&](const Account* account) { return account == accounts_[0].get(); };
  EXPECT_TRUE(table_.AnyWaits(is_first));
  table_.Remove(flows_[0], line_);
  EXPECT_FALSE(table_.AnyWaits(is_first));
}

TEST_F(ShareTableTest, AClusterIsThreeCores) {
  AddAll({1, 1});
  std::vector<uint32_t> turns(2);
  for (int turn = 0; turn < 400; ++turn) {
    Flow& flow = table_.Next(line_);
    table_.Serve(flow, line_);
    const auto i = static_cast<size_t>(&flow - flows_.data());
    table_.Take(*flow.share, kCore, i == 0 ? PTO_MIX : PTO_AIV);
    clock_.Advance(absl::Milliseconds(1));
    table_.Return(kCore);
    ++turns[i];
  }
  EXPECT_NEAR(turns[0], 100, 4);
}

TEST_F(ShareTableTest, NothingIsSavedUpInAPause) {
  AddAll({1, 1});
  const std::vector<absl::Duration> took(2, absl::Milliseconds(1));
  Serve(100, took);
  table_.Remove(flows_[0], line_);
  Serve(1000, took);
  table_.Add(flows_[0], accounts_[0], line_);
  EXPECT_NEAR(Part(Serve(100, took)), 0.5, 0.03);
}

TEST_F(ShareTableTest, WhatWasTakenAtOnceIsNotForgottenInAPause) {
  AddAll({1, 1});
  // Take four cores at once, at the same clock time.
  Share& share = *flows_[0].share;
  for (uint32_t core = 0; core < 4; ++core) table_.Take(share, core, PTO_AIV);
  table_.Remove(flows_[0], line_);
  clock_.Advance(absl::Milliseconds(100));
  for (uint32_t core = 0; core < 4; ++core) table_.Return(core);
  table_.Add(flows_[0], accounts_[0], line_);
  const std::vector<absl::Duration> used =
      Serve(380, {absl::Milliseconds(1), absl::Milliseconds(1)});
  EXPECT_EQ(used[0], absl::ZeroDuration());
}

TEST_F(ShareTableTest, ABurstIsNotFree) {
  AddAll({1, 1});
  Serve(20, {absl::Milliseconds(1), absl::Milliseconds(1)});
  // No core is returned meanwhile; still both accounts get about as many.
  std::vector<uint32_t> turns(2);
  for (uint32_t core = 0; core < 12; ++core) {
    Flow& flow = table_.Next(line_);
    table_.Serve(flow, line_);
    ++turns[static_cast<size_t>(&flow - flows_.data())];
    table_.Take(*flow.share, core, PTO_AIV);
  }
  EXPECT_NEAR(turns[0], 6, 1);
}

TEST_F(ShareTableTest, WhoIsNotServedKeepsItsTurn) {
  AddAll({1});
  Flow other;
  table_.Add(other, accounts_[0], line_);
  EXPECT_EQ(&table_.Next(line_), &flows_[0]);
  EXPECT_EQ(&table_.Next(line_), &flows_[0]);
  table_.Serve(flows_[0], line_);
  EXPECT_EQ(&table_.Next(line_), &other);
  // Serving a flow out of turn does not move the turn.
  table_.Serve(flows_[0], line_);
  EXPECT_EQ(&table_.Next(line_), &other);
}

TEST_F(ShareTableTest, TheTimeOfAGangsBlockCountsFromItsBeginning) {
  AddAll({1, 1});
  Share& gang = table_.AddGang(accounts_[0]);
  EXPECT_EQ(&gang, flows_[0].share);
  const double before = gang.used_ns;
  table_.Take(gang, kCore, PTO_AIV, ShareTable::From::kBegin);
  clock_.Advance(absl::Seconds(1));
  table_.Begin(kCore);
  clock_.Advance(absl::Milliseconds(3));
  table_.Return(kCore);
  EXPECT_EQ(gang.used_ns - before, 3e6);
  table_.Take(gang, kCore, PTO_AIV, ShareTable::From::kNow, /*part=*/0.25);
  clock_.Advance(absl::Milliseconds(4));
  table_.Return(kCore);
  EXPECT_EQ(gang.used_ns - before, 4e6);
  table_.RemoveGang(gang);
}

// One gang runs after the other, while another account uses the remaining cores.
TEST_F(ShareTableTest, AnAccountWhoseGangRunsIsNotInAPause) {
  AddAll({1, 1});
  table_.Remove(flows_[0], line_);
  Share& gang = table_.AddGang(accounts_[0]);
  const double before = gang.used_ns;
  table_.Take(gang, 0, PTO_AIV, ShareTable::From::kBegin);
  table_.RemoveGang(gang);
  Flow& flow = flows_[1];
  for (int i = 0; i < 10; ++i) {
    table_.Serve(flow, line_);
    table_.Take(*flow.share, kCore, PTO_AIV);
    clock_.Advance(absl::Milliseconds(10));
    table_.Return(kCore);
  }
  table_.AddGang(accounts_[0]);
  EXPECT_LE(gang.used_ns, before + 1e6);
  // But its credit is limited.
  table_.RemoveGang(gang);
  for (int i = 0; i < 10; ++i) {
    table_.Serve(flow, line_);
    table_.Take(*flow.share, kCore, PTO_AIV);
    clock_.Advance(absl::Seconds(10));
    table_.Return(kCore);
  }
  table_.AddGang(accounts_[0]);
  EXPECT_GE(gang.used_ns, 80e9);
}

TEST_F(ShareTableTest, ForgetsWhoIsGone) {
  AddAll({1});
  for (int i = 0; i < 1000; ++i) {
    Flow visitor;
    table_.Add(visitor, std::make_shared<Account>("visitor"), line_);
    Share& share = *visitor.share;
    table_.Take(share, 1, PTO_AIV);
    table_.Remove(visitor, line_);
    clock_.Advance(absl::Milliseconds(1));
    table_.Return(1);
    Serve(2, {absl::Milliseconds(1)});
    ASSERT_LE(table_.size(), 4u);
  }
  Serve(10, {absl::Milliseconds(1)});
  EXPECT_EQ(table_.size(), 1u);
}

}  // namespace
}  // namespace pto::engine
