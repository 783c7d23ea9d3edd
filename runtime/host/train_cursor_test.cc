#include "runtime/host/train_cursor.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <thread>

namespace pto::host {
namespace {

TEST(TrainCursorTest, BeginsAllSteps) {
  std::atomic<uint64_t> word{7};
  TrainCursor cursor(word);
  cursor.Start(2);
  EXPECT_EQ(cursor.Read().begun, 0u);
  EXPECT_TRUE(cursor.Begin(0));
  EXPECT_TRUE(cursor.Begin(1));
  EXPECT_FALSE(cursor.Begin(2));
  EXPECT_EQ(cursor.Read().begun, 2u);
  EXPECT_EQ(cursor.Read().end, 2u);
}

TEST(TrainCursorTest, EndsAfterTheStepThatWasBegun) {
  std::atomic<uint64_t> word{0};
  TrainCursor cursor(word);
  cursor.Start(5);
  EXPECT_EQ(cursor.End().end, 5u) << "none was begun";
  EXPECT_TRUE(cursor.Begin(0));
  EXPECT_TRUE(cursor.Begin(1));
  for (int i = 0; i < 2; ++i) {
    const TrainCursor::Place place = cursor.End();
    EXPECT_EQ(place.begun, 2u);
    EXPECT_EQ(place.end, 2u);
  }
  EXPECT_FALSE(cursor.Begin(2));
}

// Either the step is begun, or the other side knows that it is not.
TEST(TrainCursorTest, BothSidesAgree) {
  constexpr uint32_t kSteps = 1000;
  for (int round = 0; round < 200; ++round) {
    std::atomic<uint64_t> word{0};
    TrainCursor(word).Start(kSteps);
    uint32_t begun = 0;
    std::thread host([&] {
      while (TrainCursor(word).Begin(begun)) ++begun;
    });
    TrainCursor::Place place;
    while (place.begun == 0) place = TrainCursor(word).End();
    host.join();
    EXPECT_EQ(begun, place.end);
  }
}

}  // namespace
}  // namespace pto::host
