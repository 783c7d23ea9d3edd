// Kernels of a shared object in a process of their own, on an engine with two chips.

#include "runtime/host/host_lane.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "runtime/base/error.h"
#include "runtime/base/sanitized.h"
#include "runtime/base/status_matchers.h"
#include "runtime/host/testing/host_world.h"

namespace pto::host {
namespace {

using ::pto::host::testing::Children;
using ::pto::host::testing::HostTask;
using ::pto::host::testing::HostWorld;
using ::pto::host::testing::TestHostOptions;
using ::pto::host::testing::TestObject;
using ::pto::testing::HasReason;
using ::pto::testing::IsOk;
using ::testing::HasSubstr;

constexpr absl::Duration kLong = absl::Seconds(20);

class HostLaneTest : public ::testing::Test {
 protected:
  void Add(const std::string& entry) { ASSERT_THAT(world_.AddKernel(host_, entry), IsOk()); }

  HostWorld world_;
  HostWorld::Host host_ = world_.AddHost();
};

TEST_F(HostLaneTest, AddsVectorsOnTwoChips) {
  Add("vector_add");
  constexpr int64_t kCount = 1000;
  std::vector<HostTask> tasks;
  for (uint32_t chip = 0; chip < 2; ++chip) {
    float* const data = world_.memory<float>(chip);
    for (int64_t i = 0; i < kCount; ++i) {
      data[i] = static_cast<float>(i);
      data[kCount + i] = static_cast<float>(chip + 1);
    }
    tasks.push_back(
        {.kernel = "vector_add",
         .args = {{0, kCount, PTO_F32}, {kCount, kCount, PTO_F32}, {2 * kCount, kCount, PTO_F32}},
         .chip = chip,
         .block_num = 4});
  }
  EXPECT_THAT(world_.Run(tasks), IsOk());
  for (uint32_t chip = 0; chip < 2; ++chip) {
    const float* const data = world_.memory<float>(chip);
    for (int64_t i = 0; i < kCount; ++i) {
      ASSERT_EQ(data[2 * kCount + i], static_cast<float>(i) + static_cast<float>(chip + 1)) << i;
    }
  }
}

TEST_F(HostLaneTest, ABlockKnowsItsPlace) {
  Add("write_place");
  EXPECT_THAT(world_.Run({{.kernel = "write_place", .args = {{0, 64}}, .chip = 1, .block_num = 3}}),
              IsOk());
  const int64_t* const words = world_.memory<int64_t>(1);
  for (int block = 0; block < 3; ++block) {
    EXPECT_EQ(words[block * 4], 1);
    EXPECT_EQ(words[block * 4 + 1], 3);
    EXPECT_EQ(words[block * 4 + 2], 0);
    EXPECT_EQ(words[block * 4 + 3], PTO_AIV);
  }
}

TEST_F(HostLaneTest, ATaskOnSeveralChipsSeesAllMembers) {
  Add("add_number");
  EXPECT_THAT(
      world_.Run({{.kernel = "add_number", .args = {{8, 1}}, .scalars = {5}, .members = {0, 1}}}),
      IsOk());
  // Each of the two calls adds to both.
  EXPECT_EQ(world_.memory<int64_t>(0)[8], 10);
  EXPECT_EQ(world_.memory<int64_t>(1)[8], 10);
}

TEST_F(HostLaneTest, AGraphMixesKernelsOfTheHostAndOfTheEngine) {
  Add("add_number");
  world_.AddBuiltIn();
  std::vector<HostTask> tasks;
  for (uint32_t i = 0; i < 50; ++i) {
    const std::vector<uint32_t> after = i == 0 ? std::vector<uint32_t>() : std::vector{2 * i - 1};
    tasks.push_back({.kernel = "add_number", .args = {{0, 1}}, .scalars = {1}, .after = after});
    tasks.push_back({.kernel = "nothing", .after = {2 * i}});
  }
  EXPECT_THAT(world_.Run(tasks), IsOk());
  EXPECT_EQ(world_.memory<int64_t>(0)[0], 50);
}

TEST_F(HostLaneTest, MoreBlocksThanTheHostHasThreads) {
  Add("add_number");
  std::vector<HostTask> tasks;
  for (uint32_t i = 0; i < 500; ++i) {
    tasks.push_back(
        {.kernel = "add_number", .args = {{0, 1}}, .scalars = {1}, .chip = i % 2, .block_num = 5});
  }
  EXPECT_THAT(world_.Run(tasks), IsOk());
  EXPECT_EQ(world_.memory<int64_t>(0)[0] + world_.memory<int64_t>(1)[0], 2500);
}

TEST_F(HostLaneTest, AFailedKernelSaysWhy) {
  Add("fail");
  const absl::Status failed = world_.Run({{.kernel = "fail", .scalars = {7}}});
  EXPECT_THAT(failed, HasReason(reason::kKernelFailed));
  EXPECT_THAT(std::string(failed.message()), HasSubstr("kernel 'fail'"));
  EXPECT_THAT(std::string(failed.message()), HasSubstr("it returned 7: this is what went wrong"));
  EXPECT_EQ(host_.keeper->status().deaths, 0u);
}

TEST_F(HostLaneTest, ACancelledKernelSeesItsFlag) {
  Add("spin");
  Add("spin_plain");
  for (const char* const kernel : {"spin", "spin_plain"}) {
    world_.memory<int64_t>(0)[0] = 0;
    const std::shared_ptr<engine::Run> run = world_.Start({{.kernel = kernel, .args = {{0, 1}}}});
    while (__atomic_load_n(world_.memory<int64_t>(0), __ATOMIC_ACQUIRE) == 0) {
      std::this_thread::yield();
    }
    world_.Cancel(*run);
    world_.Await(*run).IgnoreError();
    EXPECT_EQ(run->state(), engine::RunState::kCancelled);
  }
  EXPECT_EQ(host_.keeper->status().deaths, 0u);
}

// They would never end if one waited for the thread of another.
TEST_F(HostLaneTest, BlockingKernelsHaveAThreadEach) {
  Add("spin");
  const std::shared_ptr<engine::Run> run = world_.Start({{.kernel = "spin", .args = {{0, 1}}},
                                                         {.kernel = "spin", .args = {{1, 1}}},
                                                         {.kernel = "spin", .args = {{2, 1}}},
                                                         {.kernel = "spin", .args = {{3, 1}}}});
  for (int i = 0; i < 4; ++i) {
    while (__atomic_load_n(world_.memory<int64_t>(0) + i, __ATOMIC_ACQUIRE) == 0) {
      std::this_thread::yield();
    }
  }
  world_.Cancel(*run);
  world_.Await(*run).IgnoreError();
}

TEST_F(HostLaneTest, SeveralHostsAtOnce) {
  HostWorld::Host other = world_.AddHost(TestHostOptions("other"));
  Add("add_number");
  ASSERT_THAT(world_.AddKernel(other, "add_number", "other_number"), IsOk());
  std::vector<HostTask> tasks;
  for (uint32_t i = 0; i < 200; ++i) {
    tasks.push_back(
        {.kernel = i % 2 == 0 ? "add_number" : "other_number", .args = {{0, 1}}, .scalars = {1}});
  }
  EXPECT_THAT(world_.Run(tasks), IsOk());
  EXPECT_EQ(world_.memory<int64_t>(0)[0], 200);
  EXPECT_EQ(world_.supervisor.List().size(), 2u);
}

TEST_F(HostLaneTest, MemoryThatTheHostDoesNotSeeIsRefused) {
  Add("add_number");
  // The host of another owner has no memory.
  const std::shared_ptr<HostKeeper> keeper = world_.supervisor.Start(TestHostOptions("blind"));
  HostWorld::Host blind{keeper, nullptr};
  const auto budget = std::make_shared<engine::SharingBudget>(1, 1);
  EXPECT_THAT(keeper->AddMemory(
                  engine::testing::MakeTestChips({1})[0]->memory().AllocateHost(4096).value()),
              HasReason(reason::kNotAvailable));
}

TEST_F(HostLaneTest, AnObjectWithoutTheKernelIsRefused) {
  const absl::Status refused = world_.AddKernel(host_, "no_such_symbol");
  EXPECT_THAT(refused, HasReason(reason::kFieldInvalid));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("no_such_symbol"));
  EXPECT_THAT(world_.AddKernel(host_, "malformed"), HasReason(reason::kFieldInvalid));
  EXPECT_EQ(host_.keeper->status().deaths, 0u);
  Add("noop");
  EXPECT_THAT(world_.Run({{.kernel = "noop"}}), IsOk());
}

TEST_F(HostLaneTest, ItSaysWhatItHas) {
  Add("noop");
  ASSERT_TRUE(host_.keeper->AwaitReady(kLong));
  const HostStatus status = host_.keeper->status();
  EXPECT_EQ(status.state, HostStatus::State::kReady);
  EXPECT_GT(status.pid, 0);
  EXPECT_EQ(status.starts, 1u);
  EXPECT_EQ(status.kernels, 1u);
  EXPECT_EQ(status.regions, 2u);
  EXPECT_EQ(status.region_bytes, 2 * HostWorld::kBytes);
  EXPECT_GE(status.sandbox.count, 5u);
}

// The sum of a field of all threads in /proc: how often they have been on a processor.
uint64_t Switches(int pid) {
  uint64_t sum = 0;
  for (const auto& task :
       std::filesystem::directory_iterator(absl::StrCat("/proc/", pid, "/task"))) {
    std::ifstream in(task.path() / "status");
    for (std::string line; std::getline(in, line);) {
      if (!absl::StrContains(line, "ctxt_switches:")) continue;
      uint64_t value = 0;
      if (absl::SimpleAtoi(line.substr(line.find(':') + 1), &value)) sum += value;
    }
  }
  return sum;
}

uint64_t ResidentBytes(int pid) {
  std::ifstream in(absl::StrCat("/proc/", pid, "/statm"));
  uint64_t pages = 0;
  in >> pages >> pages;
  return pages * 4096;
}

TEST_F(HostLaneTest, AnIdleHostSleeps) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer has threads of its own";
  Add("add_number");
  EXPECT_THAT(world_.Run({{.kernel = "add_number", .args = {{0, 1}}, .scalars = {1}}}), IsOk());
  const int pid = host_.keeper->status().pid;
  EXPECT_LT(ResidentBytes(pid), uint64_t{20} << 20);
  // Its threads go to sleep some microseconds after the last block. Then nothing happens any more.
  uint64_t before = 0;
  uint64_t now = Switches(pid);
  for (int round = 0; round < 100 && before != now; ++round) {
    before = now;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    now = Switches(pid);
  }
  EXPECT_EQ(before, now);
}

TEST_F(HostLaneTest, TheHostEndsWithTheLastKernelOfItsLane) {
  Add("noop");
  EXPECT_THAT(world_.Run({{.kernel = "noop"}}), IsOk());
  EXPECT_EQ(Children().size(), 1u);
  world_.kernels.Remove("noop");
  host_.port.reset();
  while (!world_.supervisor.List().empty()) std::this_thread::yield();
  EXPECT_TRUE(Children().empty());
}

TEST_F(HostLaneTest, APlainProgramIsNoHost) {
  HostOptions options = TestHostOptions("none");
  options.command.arguments = {"/bin/false"};
  options.first_pause = absl::Milliseconds(1);
  const std::shared_ptr<HostKeeper> keeper = world_.supervisor.Start(options);
  while (keeper->status().deaths < 3) std::this_thread::yield();
  EXPECT_THAT(keeper->status().last_death, HasSubstr("it ended with code 1"));
  const auto loaded = keeper->Load(TestObject(), "noop", "x.so", kLong);
  EXPECT_THAT(loaded, HasReason(reason::kHostLost));

  options.command.arguments = {"/no/such/program"};
  const std::shared_ptr<HostKeeper> missing = world_.supervisor.Start(options);
  while (missing->status().deaths < 3) std::this_thread::yield();
  EXPECT_THAT(missing->status().last_death, HasSubstr("/no/such/program: No such file"));
}

}  // namespace
}  // namespace pto::host
