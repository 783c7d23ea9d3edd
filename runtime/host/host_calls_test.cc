// Kernels in a process of their own that wait, notify, meet, copy, and defer the end of their task.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/base/status_matchers.h"
#include "runtime/engine/snapshot/diagnosis.h"
#include "runtime/host/testing/host_world.h"

namespace pto::host {
namespace {

using ::pto::host::testing::HostTask;
using ::pto::host::testing::HostWorld;
using ::pto::testing::HasReason;
using ::pto::testing::IsOk;
using ::testing::HasSubstr;

// What the kernel `call` does.
enum Mode : int64_t {
  kWait,
  kNotify,
  kWaitBriefly,
  kGiveUp,
  kCopy,
  kDeferCopy,
  kDefer,
  kDeferForeign,
  kNotifyOwnMemory,
  kWaitOutside,
  kCopyTooMuch,
  kDeferTooOften,
};

class HostCallsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* const kernel :
         {"call", "call_silent", "call_together", "add_number", "fault"}) {
      ASSERT_THAT(world_.AddKernel(host_, kernel), IsOk());
    }
    for (uint32_t chip = 0; chip < 2; ++chip) {
      for (int64_t i = 0; i < 4; ++i) words(chip)[8 + i] = 10 * chip + 8 + i;
    }
  }
  int64_t* words(uint32_t chip = 0) { return world_.memory<int64_t>(chip); }
  static HostTask Task(Mode mode, uint32_t block_num = 1) {
    return {.kernel = "call", .args = {{0, 64}}, .scalars = {mode}, .block_num = block_num};
  }
  absl::Status Run(Mode mode) { return world_.Run({Task(mode)}); }
  // Until so many blocks wait.
  void AwaitWaits(size_t count) {
    while (world_.engine().waiting() < count) std::this_thread::yield();
  }
  static std::string Text(const absl::Status& status) { return std::string(status.message()); }
  void ExpectNoDeath() { EXPECT_EQ(host_.keeper->status().deaths, 0u); }

  HostWorld world_;
  HostWorld::Host host_ = world_.AddHost();
};

TEST_F(HostCallsTest, AWaitEndsWithItsSignal) {
  const std::shared_ptr<engine::Run> run = world_.Start({Task(kWait, 3)});
  AwaitWaits(3);
  // The snapshot names what it waits for.
  const engine::EngineNow now = world_.engine().Look();
  const engine::RunDiagnosis explained = engine::Diagnosis(now).Explain(0, 0, 1000, 10);
  ASSERT_EQ(explained.obstacles.size(), 1u);
  EXPECT_EQ(explained.obstacles[0].kind, engine::Obstacle::Kind::kSignal);
  EXPECT_EQ(explained.obstacles[0].element, 2u);
  EXPECT_EQ(explained.obstacles[0].want, 1);
  world_.Notify(0, 2, 1);
  EXPECT_THAT(world_.Await(*run), IsOk());
  EXPECT_EQ(world_.engine().waiting(), 0u);
  ExpectNoDeath();
}

TEST_F(HostCallsTest, ANoticeIsMadeWhenItReturns) {
  EXPECT_THAT(Run(kNotify), IsOk());
  EXPECT_EQ(words()[1], 5);
  const absl::Status silent =
      world_.Run({{.kernel = "call_silent", .args = {{0, 64}}, .scalars = {kNotify}}});
  EXPECT_THAT(Text(silent), HasSubstr("it notifies, but does not say that it does"));
  const absl::Status waits =
      world_.Run({{.kernel = "call_silent", .args = {{0, 64}}, .scalars = {kWait}}});
  EXPECT_THAT(Text(waits), HasSubstr("it calls wait, but does not say that it waits or blocks"));
  ExpectNoDeath();
}

TEST_F(HostCallsTest, AWaitHasATime) {
  for (const Mode mode : {kWaitBriefly, kGiveUp}) {
    const absl::Status late = Run(mode);
    EXPECT_THAT(late, HasReason(reason::kWaitTimeout));
    EXPECT_THAT(Text(late), HasSubstr(">= 1, had 0 after 1ms"));
  }
  ExpectNoDeath();
}

TEST_F(HostCallsTest, CopiesAreAwaitedOrDeferred) {
  EXPECT_THAT(Run(kCopy), IsOk());
  EXPECT_EQ(words()[1], 3);
  words()[19] = 0;
  EXPECT_THAT(Run(kDeferCopy), IsOk());
  EXPECT_EQ(words()[19], 11);
  ExpectNoDeath();
}

TEST_F(HostCallsTest, ADeferredTaskEndsWithItsConditions) {
  const std::shared_ptr<engine::Run> run = world_.Start(
      {Task(kDefer), {.kernel = "add_number", .args = {{3, 1}}, .scalars = {1}, .after = {0}}});
  AwaitWaits(1);
  EXPECT_EQ(words()[3], 0);
  world_.Notify(0, 2, 1);
  EXPECT_THAT(world_.Await(*run), IsOk());
  EXPECT_EQ(words()[3], 1);

  words()[2] = 0;
  const std::shared_ptr<engine::Run> foreign = world_.Start({Task(kDeferForeign)});
  AwaitWaits(1);
  __atomic_store_n(&words()[2], 1, __ATOMIC_RELEASE);
  while (world_.engine().LookAtForeignWords() > 0) std::this_thread::yield();
  EXPECT_THAT(world_.Await(*foreign), IsOk());

  words()[2] = 0;
  EXPECT_THAT(Text(Run(kDeferTooOften)), HasSubstr("at most 64 conditions"));
  EXPECT_EQ(world_.engine().waiting(), 0u) << "a failed block defers nothing";
  ExpectNoDeath();
}

TEST_F(HostCallsTest, BlocksOnSeveralChipsMeetAndCopy) {
  for (int round = 0; round < 20; ++round) {
    EXPECT_THAT(world_.Run({{.kernel = "call_together",
                             .args = {{0, 64}},
                             .scalars = {0},
                             .members = {0, 1},
                             .block_num = 2,
                             .together = true}}),
                IsOk());
  }
  EXPECT_EQ(words(0)[16], 18);
  EXPECT_EQ(words(1)[16], 8);
  // One that leaves breaks the barrier of the others.
  const absl::Status broken = world_.Run({{.kernel = "call_together",
                                           .args = {{0, 64}},
                                           .scalars = {1},
                                           .members = {0, 1},
                                           .block_num = 2,
                                           .together = true}});
  EXPECT_THAT(broken, HasReason(reason::kKernelFailed));
  EXPECT_EQ(world_.engine().waiting(), 0u);
  ExpectNoDeath();
}

TEST_F(HostCallsTest, WrongCallsAreRefused) {
  EXPECT_THAT(Text(Run(kNotifyOwnMemory)), HasSubstr("it returned -4")) << "though it returned 0";
  EXPECT_THAT(Text(Run(kWaitOutside)), HasSubstr("waits for words of its task's tensors only"));
  EXPECT_THAT(Text(Run(kCopyTooMuch)), HasSubstr("a copy is between"));
  ExpectNoDeath();
}

TEST_F(HostCallsTest, AStopEndsWaits) {
  const std::shared_ptr<engine::Run> run = world_.Start({Task(kWait, 2), Task(kDefer)});
  AwaitWaits(3);
  world_.Cancel(*run);
  world_.Await(*run).IgnoreError();
  EXPECT_EQ(run->state(), engine::RunState::kCancelled);
  EXPECT_EQ(world_.engine().waiting(), 0u);
  ExpectNoDeath();
}

TEST_F(HostCallsTest, TheTimeOfATaskEndsItsWaits) {
  HostTask task = Task(kWait);
  task.timeout_ns = 5'000'000;
  const absl::Status late = world_.Run({task});
  EXPECT_THAT(late, HasReason(reason::kTaskDeadline));
  EXPECT_THAT(Text(late), HasSubstr(">= 1, had 0"));
  ExpectNoDeath();
}

TEST_F(HostCallsTest, ADeadHostWaitsNoMore) {
  const std::shared_ptr<engine::Run> waits = world_.Start({Task(kWait)});
  AwaitWaits(1);
  const absl::Status died = world_.Run({{.kernel = "fault", .scalars = {0}}});
  EXPECT_THAT(Text(died), HasSubstr("SIGSEGV at address 0x10 in kernel 'fault'"))
      << "not the one that waits";
  EXPECT_THAT(world_.Await(*waits), HasReason(reason::kHostLost));
  EXPECT_EQ(world_.engine().waiting(), 0u);
  EXPECT_EQ(host_.keeper->status().deaths, 1u);
  // The next one works.
  EXPECT_THAT(Run(kCopy), IsOk());
}

// A kernel of a user that makes every call by way of the C++ layer.
TEST_F(HostCallsTest, TheLayerForUsersMakesEveryCall) {
  for (const char* const compiler : {"gcc", "clang"}) {
    ASSERT_THAT(world_.AddOwn(host_, std::string("own_exercise_") + compiler), IsOk());
    for (int64_t i = 0; i < 64; ++i) words()[i] = 0;
    const std::vector<HostTask> tasks = {{.kernel = "exercise",
                                          .args = {{0, 64}},
                                          .scalars = {0},
                                          .block_num = 2,
                                          .together = true}};
    EXPECT_THAT(world_.Run(tasks), IsOk());
    for (int64_t i = 0; i < 4; ++i) {
      EXPECT_EQ(words()[16 + i], 10 + i) << "waited for";
      EXPECT_EQ(words()[24 + i], 10 + i) << "deferred to its signal";
      EXPECT_EQ(words()[28 + i], 10 + i) << "deferred to the copy";
    }
    EXPECT_EQ(words()[20], 46);
    EXPECT_EQ(words()[34], 146) << "the share of the second block";
    world_.kernels.Remove("exercise");
  }
  ExpectNoDeath();
}

// A kernel of the PTO ABI: each rank tells the others with plain stores, and ends when all of them
// have told it.
TEST_F(HostCallsTest, ForeignCodeEndsADeferredTask) {
  ASSERT_THAT(world_.AddPto(host_, "pto_async_notify_gcc", "tell_all",
                            "out i32[] done, hidden nodep u32[] window, domain(1), address(1)"),
              IsOk());
  world_.AddDomain(host_, 4711, 0, HostWorld::kBytes);
  for (int round = 0; round < 10; ++round) {
    for (uint32_t chip = 0; chip < 2; ++chip) words(chip)[0] = words(chip)[40] = 0;
    const std::shared_ptr<engine::Run> run = world_.Start(
        {{.kernel = "tell_all", .args = {{80, 1, PTO_I32}, {0, 8, PTO_U32}}, .members = {0, 1}}});
    while (!engine::IsFinal(run->state())) {
      world_.engine().LookAtForeignWords();
      std::this_thread::yield();
    }
    EXPECT_THAT(world_.Await(*run), IsOk());
    for (uint32_t chip = 0; chip < 2; ++chip) {
      EXPECT_EQ(words(chip)[0], 1);
      EXPECT_EQ(words(chip)[40], 1);
    }
  }
  ExpectNoDeath();
}

}  // namespace
}  // namespace pto::host
