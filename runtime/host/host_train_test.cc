// Short kernels of users, of which the host gets many with one post.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/base/status_matchers.h"
#include "runtime/host/testing/host_world.h"

namespace pto::host {
namespace {

using ::pto::host::testing::HostTask;
using ::pto::host::testing::HostWorld;
using ::pto::testing::HasReason;
using ::pto::testing::IsOk;
using ::testing::HasSubstr;

// What the kernel `step` does.
enum Action : int64_t { kNothing, kFail, kCrash, kDefer, kAwait, kStore };

class HostTrainTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_THAT(world_.AddKernel(host_, "step"), IsOk());
    // From now on the engine knows that the kernel is short.
    ASSERT_THAT(world_.Run(Chain(100)), IsOk());
    words()[0] = 0;
  }

  int64_t* words() { return world_.memory<int64_t>(0); }
  static HostTask Step(Action action, std::vector<uint32_t> after = {}) {
    return {.kernel = "step", .args = {{0, 64}}, .scalars = {action}, .after = std::move(after)};
  }
  static std::vector<HostTask> Chain(uint32_t count) {
    std::vector<HostTask> tasks(count, Step(kNothing));
    for (uint32_t i = 1; i < count; ++i) tasks[i].after = {i - 1};
    return tasks;
  }
  static std::vector<HostTask> ChainWith(uint32_t count, uint32_t place, Action action) {
    std::vector<HostTask> tasks = Chain(count);
    tasks[place].scalars = {action};
    return tasks;
  }
  // How many posts the host got for a graph.
  uint64_t PostsOf(const std::vector<HostTask>& tasks) {
    const uint64_t before = host_.port->counts().posted;
    EXPECT_THAT(world_.Run(tasks), IsOk());
    return host_.port->counts().posted - before;
  }

  HostWorld world_;
  HostWorld::Host host_ = world_.AddHost();
};

TEST_F(HostTrainTest, ALongChainNeedsFewPosts) {
  EXPECT_LT(PostsOf(Chain(3000)), 1000u);
  EXPECT_EQ(words()[0], 3000);
}

TEST_F(HostTrainTest, ManyIndependentTasksNeedFewPosts) {
  EXPECT_LT(PostsOf(std::vector<HostTask>(5000, Step(kNothing))), 2500u);
  EXPECT_EQ(words()[0], 5000);
}

TEST_F(HostTrainTest, EachTaskHasItsOwnArguments) {
  ASSERT_THAT(world_.AddKernel(host_, "add_number"), IsOk());
  std::vector<HostTask> tasks;
  for (int64_t i = 0; i < 2000; ++i) {
    tasks.push_back({.kernel = "add_number", .args = {{i, 1}}, .scalars = {3 * i}});
    if (i > 0) tasks.back().after = {static_cast<uint32_t>(i - 1)};
  }
  for (int round = 1; round <= 3; ++round) {
    EXPECT_THAT(world_.Run(tasks), IsOk());
    for (int64_t i = 0; i < 2000; ++i) ASSERT_EQ(words()[i], round * 3 * i) << i;
  }
}

TEST_F(HostTrainTest, AFailedTaskIsNamed) {
  const std::shared_ptr<engine::Run> run = world_.Start(ChainWith(20, 12, kFail));
  const absl::Status failed = world_.Await(*run);
  EXPECT_THAT(failed, HasReason(reason::kKernelFailed));
  EXPECT_THAT(std::string(failed.message()), HasSubstr("task 12: kernel 'step'"));
  EXPECT_THAT(std::string(failed.message()), HasSubstr("returned 5: it is the wrong step"));
  EXPECT_EQ(run->counts().done, 12u);
  EXPECT_EQ(run->counts().failed, 1u);
  EXPECT_EQ(run->counts().skipped, 7u);
  EXPECT_EQ(words()[0], 13);
}

TEST_F(HostTrainTest, ACrashFailsTheTaskThatCrashed) {
  const std::shared_ptr<engine::Run> run = world_.Start(ChainWith(20, 12, kCrash));
  const absl::Status lost = world_.Await(*run);
  EXPECT_THAT(lost, HasReason(reason::kHostLost));
  EXPECT_THAT(std::string(lost.message()), HasSubstr("SIGSEGV"));
  EXPECT_THAT(std::string(lost.message()), HasSubstr("in kernel 'step', task 12, block 0 of 1"));
  EXPECT_EQ(run->counts().done, 12u);
  EXPECT_EQ(run->counts().failed, 1u);
  EXPECT_EQ(words()[0], 13);
  // The next host does the same.
  EXPECT_THAT(world_.Run(Chain(300)), IsOk());
}

TEST_F(HostTrainTest, TasksBehindACrashRunInTheNextHost) {
  // All wait for the first one, so they are ready at once. The tasks of other trains are lost, too.
  std::vector<HostTask> tasks(60, Step(kNothing, {0}));
  tasks[0].after = {};
  tasks[20].scalars = {kCrash};
  const std::shared_ptr<engine::Run> run = world_.Start(tasks);
  EXPECT_THAT(world_.Await(*run), HasReason(reason::kHostLost));
  EXPECT_EQ(run->counts().done + run->counts().failed, 60u);
  EXPECT_LE(run->counts().failed, 4u) << "one for each core";
}

TEST_F(HostTrainTest, ATaskInTheMiddleDefersItsEnd) {
  const std::shared_ptr<engine::Run> run = world_.Start(ChainWith(20, 12, kDefer));
  // The engine is told of those before it meanwhile.
  while (world_.engine().waiting() == 0 || run->counts().done < 12) std::this_thread::yield();
  EXPECT_EQ(words()[0], 13) << "those behind it wait";
  world_.Notify(0, 2, 1);
  EXPECT_THAT(world_.Await(*run), IsOk());
  EXPECT_EQ(words()[0], 20);
}

// The first waits in its thread for the last, which nobody told the engine.
TEST_F(HostTrainTest, TasksBehindOneThatTakesLongAreTakenBack) {
  std::vector<HostTask> tasks = {Step(kNothing), Step(kAwait, {0}), Step(kNothing, {0}),
                                 Step(kStore, {0})};
  EXPECT_THAT(world_.Run(tasks), IsOk());
  EXPECT_EQ(words()[0], 4);
}

TEST_F(HostTrainTest, TasksBehindOneThatTakesLongAreToldOfThoseBeforeIt) {
  // 10 runs on the other chip when the first has ended, and ends the wait of the last.
  std::vector<HostTask> tasks = ChainWith(10, 9, kAwait);
  ASSERT_THAT(world_.AddKernel(host_, "add_number"), IsOk());
  world_.AddBuiltIn();
  tasks.push_back({.kernel = "nothing", .chip = 1, .after = {0}});
  tasks.push_back({.kernel = "step", .args = {{0, 64}}, .scalars = {kNothing}, .after = {10}});
  const std::shared_ptr<engine::Run> run = world_.Start(tasks);
  // The first nine, 10 and 11.
  while (run->counts().done < 11) std::this_thread::yield();
  world_.Notify(0, 2, 1);
  EXPECT_THAT(world_.Await(*run), IsOk());
}

TEST_F(HostTrainTest, AStopReachesTheMiddleOfATrain) {
  const std::shared_ptr<engine::Run> run = world_.Start(ChainWith(100, 50, kAwait));
  while (__atomic_load_n(&words()[1], __ATOMIC_ACQUIRE) == 0) std::this_thread::yield();
  world_.Cancel(*run);
  world_.Await(*run).IgnoreError();
  EXPECT_EQ(run->state(), engine::RunState::kCancelled);
  EXPECT_EQ(words()[0], 51);
  EXPECT_EQ(host_.keeper->status().deaths, 0u);
}

}  // namespace
}  // namespace pto::host
