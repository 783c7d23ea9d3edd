#include "daemon/services/answer_charge.h"

#include <memory>
#include <string>
#include <utility>

#include "gtest/gtest.h"
#include "pto/v1/buffer.pb.h"
#include "runtime/base/error.h"
#include "runtime/base/status_matchers.h"

namespace pto::daemon {
namespace {

using ::pto::testing::HasReason;
using ::pto::testing::IsOk;

constexpr uint64_t kMiB = 1 << 20;

// As a rpc::UnaryCall, whose answer is sent when it is destroyed.
struct TestCall {
  explicit TestCall(size_t bytes) { message.set_data(std::string(bytes, 'x')); }
  v1::ReadBufferResponse* response() { return &message; }
  void Hold(std::shared_ptr<void> what) { held = std::move(what); }

  v1::ReadBufferResponse message;
  std::shared_ptr<void> held;
};

class AnswerChargeTest : public ::testing::Test {
 protected:
  MemoryBudget budget_{8 * kMiB, 4 * kMiB};
  auth::Principal caller_{"uid-1", {}};
  auth::Principal other_{"uid-2", {}};
};

TEST_F(AnswerChargeTest, LargeAnswersCountUntilTheyAreSent) {
  auto first = std::make_unique<TestCall>(kMiB);
  TestCall second(kMiB);
  ASSERT_THAT(ChargeAnswer(budget_, caller_, *first, false), IsOk());
  EXPECT_GE(budget_.all()->used(), 3 * kMiB);
  EXPECT_THAT(ChargeAnswer(budget_, caller_, second, false), HasReason(reason::kMemoryBudget));
  // Of each client by itself.
  TestCall third(kMiB);
  EXPECT_THAT(ChargeAnswer(budget_, other_, third, false), IsOk());
  first.reset();
  EXPECT_THAT(ChargeAnswer(budget_, caller_, second, false), IsOk());
}

TEST_F(AnswerChargeTest, SmallAnswersCostNothing) {
  TestCall call(1000);
  EXPECT_THAT(ChargeAnswer(budget_, caller_, call, false), IsOk());
  EXPECT_EQ(call.held, nullptr);
  EXPECT_EQ(budget_.all()->used(), 0u);
}

TEST_F(AnswerChargeTest, WhatWasChangedIsAnsweredBeyondTheLimit) {
  TestCall call(4 * kMiB);
  EXPECT_THAT(ChargeAnswer(budget_, caller_, call, true), IsOk());
  EXPECT_GE(budget_.all()->used(), 12 * kMiB);
  call.held.reset();
  EXPECT_EQ(budget_.all()->used(), 0u);
}

}  // namespace
}  // namespace pto::daemon
