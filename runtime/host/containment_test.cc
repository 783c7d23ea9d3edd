// Whatever a kernel does, its run fails with the reason, and nothing else is harmed.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/base/error.h"
#include "runtime/base/status_matchers.h"
#include "runtime/host/host_lane.h"
#include "runtime/host/testing/host_world.h"

namespace pto::host {
namespace {

using ::pto::host::testing::Children;
using ::pto::host::testing::HostTask;
using ::pto::host::testing::HostWorld;
using ::pto::host::testing::OpenDescriptors;
using ::pto::host::testing::TestHostOptions;
using ::pto::host::testing::TestObject;
using ::pto::testing::HasReason;
using ::pto::testing::IsOk;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

constexpr absl::Duration kLong = absl::Seconds(20);

struct Case {
  const char* name;
  int64_t fault;
  const char* says;
  bool blocking = false;
};

class ContainmentTest : public ::testing::TestWithParam<Case> {
 protected:
  void Add(HostWorld::Host& host, const std::string& entry, const std::string& name = "") {
    ASSERT_THAT(world_.AddKernel(host, entry, name), IsOk());
  }
  void AwaitWord(uint32_t chip, int64_t index) {
    while (__atomic_load_n(world_.memory<int64_t>(chip) + index, __ATOMIC_ACQUIRE) == 0) {
      std::this_thread::yield();
    }
  }

  HostWorld world_;
  HostWorld::Host host_ = world_.AddHost();
  HostWorld::Host other_ = world_.AddHost(TestHostOptions("other"));
};

// The run of the fault fails and names the cause; a run of another host, and a graph of the same
// host afterwards, succeed. Several times, as the second time is different.
TEST_P(ContainmentTest, OnlyItsRunFails) {
  const Case& test = GetParam();
  const char* const kernel = test.blocking ? "fault_blocking" : "fault";
  Add(host_, kernel);
  Add(host_, "add_number");
  Add(other_, "spin", "other_spin");
  Add(other_, "add_number", "other_number");
  ASSERT_TRUE(host_.keeper->AwaitReady(kLong));
  ASSERT_TRUE(other_.keeper->AwaitReady(kLong));
  const int other_pid = other_.keeper->status().pid;
  const std::shared_ptr<engine::Run> bystander =
      world_.Start({{.kernel = "other_spin", .args = {{100, 1}}}});
  AwaitWord(0, 100);
  const size_t descriptors = OpenDescriptors();
  for (int round = 1; round <= 3; ++round) {
    const absl::Status failed =
        world_.Run({{.kernel = "add_number", .args = {{0, 1}}, .scalars = {1}},
                    {.kernel = kernel, .scalars = {test.fault}, .chip = 1, .after = {0}}});
    EXPECT_THAT(failed, HasReason(reason::kHostLost)) << failed;
    const std::string message(failed.message());
    EXPECT_THAT(message, HasSubstr(test.says));
    EXPECT_THAT(message, HasSubstr(absl::StrCat("task 1: kernel '", kernel,
                                                "' failed in block 0 of 1 on chips/1 core ")));
    EXPECT_THAT(message, HasSubstr(absl::StrCat("in kernel '", kernel,
                                                "', task 1, block 0 of 1 on chips/1")));
    EXPECT_THAT(world_.Run({{.kernel = "other_number", .args = {{8, 1}}, .scalars = {1}}}), IsOk());
    // At once: it waits for the new host.
    EXPECT_THAT(world_.Run({{.kernel = "add_number", .args = {{0, 1}}, .scalars = {1}}}), IsOk());
    ASSERT_TRUE(host_.keeper->AwaitReady(kLong));
    const HostStatus status = host_.keeper->status();
    EXPECT_EQ(status.deaths, static_cast<uint64_t>(round));
    EXPECT_LT(status.last_restart, absl::Milliseconds(500));
    RecordProperty(absl::StrCat("restart_us_", round),
                   static_cast<int>(absl::ToInt64Microseconds(status.last_restart)));
  }
  // The memory is as the last good task left it.
  EXPECT_EQ(world_.memory<int64_t>(0)[0], 6);
  EXPECT_EQ(world_.memory<int64_t>(0)[8], 3);
  EXPECT_EQ(bystander->state(), engine::RunState::kRunning);
  world_.Cancel(*bystander);
  world_.Await(*bystander).IgnoreError();
  EXPECT_EQ(other_.keeper->status().pid, other_pid);
  EXPECT_EQ(other_.keeper->status().deaths, 0u);
  EXPECT_EQ(OpenDescriptors(), descriptors);
  EXPECT_EQ(Children().size(), 2u);
}

INSTANTIATE_TEST_SUITE_P(
    Faults, ContainmentTest,
    ::testing::Values(
        Case{"Segv", 0, "SIGSEGV at address 0x10"}, Case{"SegvBlocking", 0, "SIGSEGV", true},
        Case{"Bus", 1, "SIGBUS at address 0x"}, Case{"Fpe", 2, "SIGFPE at address 0x"},
        Case{"Ill", 3, "SIGILL at address 0x"}, Case{"Abort", 4, "SIGABRT"},
        Case{"Exit", 5, "it called exit(3)"}, Case{"QuickExit", 6, "it ended with code 4"},
        Case{"Terminate", 8,
             "SIGABRT after it printed 'terminate called after throwing an "
             "instance of 'std::runtime_error'   what():  thrown by a test'"},
        Case{"StackOverflow", 9, "stack overflow (SIGSEGV)"},
        Case{"StackOverflowBlocking", 9, "stack overflow (SIGSEGV)", true},
        Case{"Heap", 11, "SIGABRT"}, Case{"Ring", 12, "kernel host was lost: "},
        Case{"RingBlocking", 12, "kernel host was lost: ", true}),
    [](const ::testing::TestParamInfo<Case>& info) { return std::string(info.param.name); });

class OneHostTest : public ::testing::Test {
 protected:
  void Add(const std::string& entry) { ASSERT_THAT(world_.AddKernel(host_, entry), IsOk()); }
  std::string Message(const std::vector<HostTask>& tasks) {
    return std::string(world_.Run(tasks).message());
  }

  HostWorld world_;
  HostWorld::Host host_ = world_.AddHost();
};

TEST_F(OneHostTest, TheBacktraceNamesTheFunction) {
  Add("fault");
  EXPECT_THAT(Message({{.kernel = "fault", .scalars = {0}}}),
              ContainsRegex("; it was at test_store\\+0x[0-9a-f]+ \\([^ ]+\\) < "));
}

TEST_F(OneHostTest, AThreadOfTheKernelCounts) {
  Add("fault");
  EXPECT_THAT(Message({{.kernel = "fault", .scalars = {14}}}), HasSubstr("SIGSEGV at address 0x0"));
}

TEST_F(OneHostTest, AnExceptionFailsOnlyTheTask) {
  Add("fault");
  EXPECT_THAT(Message({{.kernel = "fault", .scalars = {7}}}),
              HasSubstr("it has thrown an exception: thrown by a test"));
  EXPECT_EQ(host_.keeper->status().deaths, 0u);
}

// It gets no memory beyond its limit, and throws.
TEST_F(OneHostTest, EndlessAllocationIsLimited) {
  Add("fault");
  EXPECT_THAT(Message({{.kernel = "fault", .scalars = {10}}}),
              HasSubstr("it has thrown an exception: std::bad_alloc"));
}

TEST_F(OneHostTest, OtherBlocksOfTheHostNameTheCulprit) {
  Add("spin");
  Add("fault");
  const std::shared_ptr<engine::Run> spinning =
      world_.Start({{.kernel = "spin", .args = {{0, 1}}}});
  while (__atomic_load_n(world_.memory<int64_t>(0), __ATOMIC_ACQUIRE) == 0) {
    std::this_thread::yield();
  }
  world_.Run({{.kernel = "fault", .scalars = {4}}}).IgnoreError();
  const absl::Status lost = world_.Await(*spinning);
  EXPECT_THAT(lost, HasReason(reason::kHostLost));
  EXPECT_THAT(std::string(lost.message()), HasSubstr("kernel 'spin' failed in block 0 of 1"));
  EXPECT_THAT(std::string(lost.message()), ContainsRegex("SIGABRT.* in kernel 'fault', task 0"));
}

// The keeper's own grace: the lane stays, and the next run succeeds.
TEST_F(OneHostTest, AKernelThatIgnoresItsFlagLosesItsHost) {
  HostOptions options = TestHostOptions("short");
  options.grace = absl::Milliseconds(50);
  HostWorld::Host host = world_.AddHost(options);
  ASSERT_THAT(world_.AddKernel(host, "spin_for_ever"), IsOk());
  ASSERT_THAT(world_.AddKernel(host, "noop"), IsOk());
  for (int round = 0; round < 3; ++round) {
    world_.memory<int64_t>(0)[0] = 0;
    const std::shared_ptr<engine::Run> run =
        world_.Start({{.kernel = "spin_for_ever", .args = {{0, 1}}}});
    while (__atomic_load_n(world_.memory<int64_t>(0), __ATOMIC_ACQUIRE) == 0) {
      std::this_thread::yield();
    }
    world_.Cancel(*run);
    world_.Await(*run).IgnoreError();
    EXPECT_EQ(run->state(), engine::RunState::kCancelled);
    EXPECT_THAT(world_.Run({{.kernel = "noop"}}), IsOk());
  }
  EXPECT_THAT(host.keeper->status().last_death,
              HasSubstr("it did not end a cancelled block within 50ms in kernel 'spin_for_ever'"));
  EXPECT_FALSE(host.port->lost());
}

TEST_F(OneHostTest, ADeadlineEndsAnEndlessLoop) {
  HostOptions options = TestHostOptions("short");
  options.grace = absl::Milliseconds(50);
  HostWorld::Host host = world_.AddHost(options);
  ASSERT_THAT(world_.AddKernel(host, "spin_for_ever"), IsOk());
  const std::shared_ptr<engine::Run> run =
      world_.Start({{.kernel = "spin_for_ever", .args = {{0, 1}}}}, /*timeout_ns=*/50'000'000);
  EXPECT_FALSE(world_.Await(*run).ok());
  EXPECT_EQ(run->state(), engine::RunState::kFailed);
}

// The engine's grace: the lane is lost for good.
TEST(LaneGraceTest, TheEngineKillsALaneThatDoesNotAnswer) {
  HostWorld world(/*lane_grace=*/absl::Milliseconds(50));
  HostOptions options = TestHostOptions();
  options.grace = absl::ZeroDuration();
  HostWorld::Host host = world.AddHost(options);
  ASSERT_THAT(world.AddKernel(host, "spin_for_ever"), IsOk());
  const std::shared_ptr<engine::Run> run =
      world.Start({{.kernel = "spin_for_ever", .args = {{0, 1}}}});
  while (__atomic_load_n(world.memory<int64_t>(0), __ATOMIC_ACQUIRE) == 0) {
    std::this_thread::yield();
  }
  world.Cancel(*run);
  world.Await(*run).IgnoreError();
  EXPECT_EQ(run->state(), engine::RunState::kCancelled);
  EXPECT_TRUE(host.port->lost());
  // Nothing of it runs any more when the run has ended.
  const absl::Status lost = world.Run({{.kernel = "spin_for_ever", .args = {{0, 1}}}});
  EXPECT_THAT(lost, HasReason(reason::kHostLost));
  EXPECT_THAT(std::string(lost.message()), HasSubstr("in task 0: kernel 'spin_for_ever'"));
  while (!Children().empty()) std::this_thread::yield();
  EXPECT_EQ(host.keeper->status().state, HostStatus::State::kEnded);
}

TEST_F(OneHostTest, EscapesAreRefusedAndTheHostLives) {
  Add("escape");
  for (int64_t action = 0; action < 8; ++action) {
    EXPECT_THAT(world_.Run({{.kernel = "escape", .scalars = {action}}}), IsOk()) << action;
  }
  Add("fault");
  EXPECT_THAT(Message({{.kernel = "fault", .scalars = {13}}}), ::testing::Not(""));
}

TEST_F(OneHostTest, AnObjectThatCrashesTheHostIsNotLoadedAgain) {
  Add("noop");
  const auto loaded = host_.keeper->Load(TestObject("crash_on_load"), "noop", "bad.so", kLong);
  EXPECT_THAT(loaded, HasReason(reason::kHostLost));
  EXPECT_THAT(std::string(loaded.status().message()),
              ContainsRegex("SIGABRT.* while it loaded 'bad.so'"));
  EXPECT_THAT(world_.Run({{.kernel = "noop"}}), IsOk());
  EXPECT_EQ(host_.keeper->status().deaths, 1u);
}

TEST_F(OneHostTest, AnObjectThatNeverLoadsIsNotLoadedAgain) {
  Add("noop");
  const auto loaded =
      host_.keeper->Load(TestObject("hang_on_load"), "noop", "bad.so", absl::Milliseconds(100));
  EXPECT_FALSE(loaded.ok());
  EXPECT_THAT(std::string(loaded.status().message()), HasSubstr("was not loaded within 100ms"));
  EXPECT_THAT(world_.Run({{.kernel = "noop"}}), IsOk());
  EXPECT_EQ(host_.keeper->status().deaths, 1u);
  EXPECT_EQ(host_.keeper->status().kernels, 1u);
}

// Deaths in a row, each with other runs of the same host on their way.
TEST_F(OneHostTest, ManyDeathsLeaveNothingBehind) {
  Add("fault");
  Add("add_number");
  ASSERT_TRUE(host_.keeper->AwaitReady(kLong));
  world_.Run({{.kernel = "add_number", .args = {{0, 1}}, .scalars = {1}}}).IgnoreError();
  const size_t descriptors = OpenDescriptors();
  for (int round = 0; round < 25; ++round) {
    std::vector<HostTask> tasks;
    for (int i = 0; i < 20; ++i) {
      tasks.push_back({.kernel = "add_number", .args = {{0, 1}}, .scalars = {1}, .block_num = 4});
    }
    tasks.push_back({.kernel = "fault", .scalars = {round % 6}});
    EXPECT_THAT(world_.Run(tasks), HasReason(reason::kHostLost));
  }
  EXPECT_THAT(world_.Run({{.kernel = "add_number", .args = {{0, 1}}, .scalars = {1}}}), IsOk());
  ASSERT_TRUE(host_.keeper->AwaitReady(kLong));
  EXPECT_EQ(OpenDescriptors(), descriptors);
  EXPECT_EQ(Children().size(), 1u);
  EXPECT_EQ(host_.keeper->status().posts, 0u);
  EXPECT_EQ(host_.keeper->status().waiting, 0u);
}

}  // namespace
}  // namespace pto::host
