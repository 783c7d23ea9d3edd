#include "runtime/engine/run/task_links.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace pto::engine {
namespace {

using End = TaskLinks::End;

TEST(TaskLinksTest, WaitersAreTakenOnce) {
  TaskLinks links(2);
  EXPECT_EQ(links.Add(0, {nullptr, 7}), End::kNone);
  EXPECT_EQ(links.Add(0, {nullptr, 8}), End::kNone);
  EXPECT_EQ(links.Add(1, {nullptr, 9}), End::kNone);
  EXPECT_EQ(links.end(0), End::kNone);
  const std::vector<TaskLinks::Waiter> waiters = links.Close(0, End::kDone);
  ASSERT_EQ(waiters.size(), 2u);
  EXPECT_EQ(waiters[0].task, 8u);
  EXPECT_EQ(waiters[1].task, 7u);
  EXPECT_TRUE(links.Close(0, End::kFailed).empty());
  EXPECT_EQ(links.end(0), End::kDone);
}

TEST(TaskLinksTest, WhoComesLateIsToldTheEnd) {
  TaskLinks links(2);
  links.Close(0, End::kFailed);
  links.Close(1, End::kDone);
  EXPECT_EQ(links.Add(0, {nullptr, 1}), End::kFailed);
  EXPECT_EQ(links.Add(1, {nullptr, 1}), End::kDone);
}

TEST(TaskLinksTest, EveryWaiterIsToldOnceByOneOfThem) {
  constexpr uint32_t kTasks = 2000;
  constexpr int kAdders = 3;
  TaskLinks links(kTasks);
  std::atomic<uint32_t> told{0}, late{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < kAdders; ++i) {
    threads.emplace_back([&] {
      for (uint32_t task = 0; task < kTasks; ++task) {
        if (links.Add(task, {nullptr, task}) != End::kNone) ++late;
      }
    });
  }
  for (uint32_t task = 0; task < kTasks; ++task) {
    told += static_cast<uint32_t>(links.Close(task, End::kDone).size());
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(told + late, kAdders * kTasks);
}

}  // namespace
}  // namespace pto::engine
