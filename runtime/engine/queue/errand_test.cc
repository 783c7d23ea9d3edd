#include "runtime/engine/queue/errand.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "runtime/engine/run/run.h"
#include "runtime/engine/testing/engine_testing.h"

namespace pto::engine {
namespace {

using ::pto::engine::testing::TestTask;
using ::testing::ElementsAre;

class TestErrand final : public Errand {
 public:
  explicit TestErrand(pto::engine::Run& run) : Errand(run) {}
  void Do(Worker&, Completions&) override {}
};

class ErrandQueueTest : public ::testing::Test {
 protected:
  static std::unique_ptr<pto::engine::Run> MakeRun(std::shared_ptr<Account> account) {
    RunSpec spec;
    spec.image = engine::testing::MakeTestGraph({TestTask{}}, {1}, nullptr);
    spec.account = std::move(account);
    return std::make_unique<pto::engine::Run>(std::move(spec), 0);
  }
  std::vector<Errand*> TakeAll() {
    std::vector<Errand*> taken;
    while (Errand* const errand = queue_.Take()) taken.push_back(errand);
    return taken;
  }
  void PushAll(const std::vector<TestErrand*>& errands) {
    for (TestErrand* const errand : errands) queue_.Push(*errand);
  }

  const std::shared_ptr<Account> account_ = std::make_shared<Account>("one");
  const std::unique_ptr<pto::engine::Run> runs_[4] = {MakeRun(account_), MakeRun(account_),
                                                      MakeRun(std::make_shared<Account>("two")),
                                                      MakeRun(nullptr)};
  pto::engine::Run& a_ = *runs_[0];
  pto::engine::Run& b_ = *runs_[1];
  pto::engine::Run& other_ = *runs_[2];
  pto::engine::Run& third_ = *runs_[3];
  Parking parking_;
  ErrandQueue queue_{parking_};
};

TEST_F(ErrandQueueTest, OfOneRunFirstComeFirstServed) {
  TestErrand first(a_), second(a_), third(a_);
  const uint64_t ticket = parking_.Ticket();
  PushAll({&first, &second, &third});
  EXPECT_NE(parking_.Ticket(), ticket);
  EXPECT_EQ(queue_.size(), 3u);
  EXPECT_EQ(queue_.Take(1), &second);
  EXPECT_EQ(queue_.Take(5), nullptr);
  EXPECT_EQ(queue_.Take(), &first);
  queue_.Push(second);
  EXPECT_THAT(TakeAll(), ElementsAre(&third, &second));
  EXPECT_EQ(queue_.size(), 0u);
}

TEST_F(ErrandQueueTest, AccountsTakeTurnsAndSoDoTheirRuns) {
  TestErrand a1(a_), a2(a_), a3(a_), b1(b_), b2(b_), o1(other_), o2(other_), t1(third_);
  PushAll({&a1, &a2, &a3, &b1, &b2, &o1, &o2, &t1});
  EXPECT_THAT(TakeAll(), ElementsAre(&a1, &o1, &t1, &b1, &o2, &a2, &b2, &a3));
}

TEST_F(ErrandQueueTest, WhoHasManyKeepsNobodyWaiting) {
  std::vector<std::unique_ptr<TestErrand>> many;
  for (int i = 0; i < 10'000; ++i) {
    many.push_back(std::make_unique<TestErrand>(a_));
    queue_.Push(*many.back());
  }
  TestErrand other(other_), same_account(b_);
  PushAll({&other, &same_account});
  std::vector<Errand*> taken;
  for (int i = 0; i < 4; ++i) taken.push_back(queue_.Take());
  EXPECT_THAT(taken, ElementsAre(many[0].get(), &other, &same_account, many[1].get()));
  EXPECT_EQ(queue_.TakeAllOf(a_).size(), 9'998u);
}

TEST_F(ErrandQueueTest, AnyPlaceCanBeTaken) {
  TestErrand a1(a_), a2(a_), b1(b_), o1(other_), t1(third_);
  for (size_t place = 0; place < 5; ++place) {
    PushAll({&a1, &a2, &b1, &o1, &t1});
    std::vector<Errand*> taken = {queue_.Take(place)};
    EXPECT_EQ(queue_.Take(4), nullptr);
    for (Errand* const errand : TakeAll()) taken.push_back(errand);
    EXPECT_THAT(taken, ::testing::UnorderedElementsAre(&a1, &a2, &b1, &o1, &t1));
  }
}

TEST_F(ErrandQueueTest, AccountsThatAreGoneAreForgotten) {
  for (int i = 0; i < 1000; ++i) {
    const std::unique_ptr<pto::engine::Run> run = MakeRun(std::make_shared<Account>("brief"));
    TestErrand errand(*run), of_a(a_);
    PushAll({&errand, &of_a});
    EXPECT_THAT(TakeAll(), ::testing::UnorderedElementsAre(&errand, &of_a));
  }
}

TEST_F(ErrandQueueTest, WhatIsThereCanBeTakenBack) {
  TestErrand first(a_), second(a_), third(a_);
  for (TestErrand* errand : {&first, &second, &third}) queue_.Push(*errand);
  EXPECT_TRUE(queue_.TakeBack(second));
  EXPECT_FALSE(queue_.TakeBack(second));
  EXPECT_EQ(queue_.Take(), &first);
  EXPECT_FALSE(queue_.TakeBack(first));
  EXPECT_EQ(queue_.size(), 1u);
  queue_.Push(second);
  EXPECT_EQ(queue_.Take(), &third);
  EXPECT_TRUE(queue_.TakeBack(second));
  EXPECT_EQ(queue_.size(), 0u);
}

TEST_F(ErrandQueueTest, OfOneRun) {
  TestErrand first(a_), second(b_), third(a_), fourth(b_);
  for (TestErrand* errand : {&first, &second, &third, &fourth}) queue_.Push(*errand);
  EXPECT_EQ(queue_.TakeOf(b_), &second);
  EXPECT_EQ(queue_.TakeAllOf(a_), (std::vector<Errand*>{&first, &third}));
  EXPECT_EQ(queue_.TakeOf(a_), nullptr);
  EXPECT_EQ(queue_.Take(), &fourth);
  EXPECT_EQ(queue_.size(), 0u);
}

}  // namespace
}  // namespace pto::engine
