#include "runtime/engine/errand.h"

#include <gtest/gtest.h>

#include <vector>

#include "runtime/engine/run.h"

namespace pto {
namespace {

class TestErrand final : public Errand {
 public:
  explicit TestErrand(Run& run) : Errand(run) {}
  void Do(Worker&) override {}
};

class ErrandQueueTest : public ::testing::Test {
 protected:
  // Only compared, never looked at.
  alignas(pto::Run) char places_[2 * sizeof(pto::Run)];
  pto::Run& a_ = *reinterpret_cast<pto::Run*>(&places_[0]);
  pto::Run& b_ = *reinterpret_cast<pto::Run*>(&places_[sizeof(pto::Run)]);
  Parking parking_;
  ErrandQueue queue_{parking_};
};

TEST_F(ErrandQueueTest, FirstComeFirstServed) {
  TestErrand first(a_), second(b_), third(a_);
  const uint64_t ticket = parking_.Ticket();
  for (TestErrand* errand : {&first, &second, &third}) queue_.Push(*errand);
  EXPECT_NE(parking_.Ticket(), ticket);
  EXPECT_EQ(queue_.size(), 3u);
  EXPECT_EQ(queue_.Take(1), &second);
  EXPECT_EQ(queue_.Take(5), nullptr);
  EXPECT_EQ(queue_.Take(), &first);
  queue_.Push(second);
  EXPECT_EQ(queue_.Take(), &third);
  EXPECT_EQ(queue_.Take(), &second);
  EXPECT_EQ(queue_.Take(), nullptr);
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
}  // namespace pto
