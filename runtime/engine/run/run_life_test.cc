#include "runtime/engine/run/run_life.h"

#include <atomic>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace pto::engine {
namespace {

TEST(RunLifeTest, EndsWithTheLastDrop) {
  RunLife life;
  life.Open();
  life.Add(3);
  life.TakeBack(2);
  EXPECT_EQ(life.outstanding(), 2);
  EXPECT_FALSE(life.Drop());
  EXPECT_TRUE(life.Drop());
  EXPECT_EQ(life.outstanding(), 0);
}

TEST(RunLifeTest, OneThatHasEndedCannotBeHeld) {
  RunLife life;
  EXPECT_FALSE(life.Hold());
  life.Open();
  EXPECT_TRUE(life.Hold());
  EXPECT_FALSE(life.Drop());
  EXPECT_TRUE(life.Drop());
  EXPECT_FALSE(life.Hold());
}

TEST(RunLifeTest, BeginsOnce) {
  RunLife life;
  EXPECT_FALSE(life.begun());
  EXPECT_TRUE(life.Begin());
  EXPECT_FALSE(life.Begin());
  EXPECT_TRUE(life.begun());
  EXPECT_FALSE(life.accepted());
  life.Accept();
  EXPECT_TRUE(life.accepted());
}

TEST(RunLifeTest, ManyThreadsEndItOnce) {
  for (int round = 0; round < 200; ++round) {
    RunLife life;
    life.Open();
    std::atomic<int> ends{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        for (int j = 0; j < 100; ++j) {
          if (life.Hold() && life.Drop()) ++ends;
        }
      });
    }
    if (life.Drop()) ++ends;
    for (std::thread& thread : threads) thread.join();
    ASSERT_EQ(ends, 1);
  }
}

}  // namespace
}  // namespace pto::engine
