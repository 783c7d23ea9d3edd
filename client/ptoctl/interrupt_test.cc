#include "client/ptoctl/interrupt.h"

#include <csignal>

#include "gtest/gtest.h"

namespace pto::ptoctl {
namespace {

TEST(InterruptTest, NoticesTheFirstSignal) {
  Interrupt interrupt;
  EXPECT_FALSE(interrupt.seen());
  std::raise(SIGINT);
  EXPECT_TRUE(interrupt.seen());
}

TEST(InterruptTest, StartsAnew) {
  {
    Interrupt interrupt;
    std::raise(SIGTERM);
    EXPECT_TRUE(interrupt.seen());
  }
  Interrupt interrupt;
  EXPECT_FALSE(interrupt.seen());
}

TEST(InterruptDeathTest, TheSecondSignalEndsTheProcess) {
  EXPECT_EXIT(
      {
        Interrupt interrupt;
        std::raise(SIGINT);
        std::raise(SIGINT);
      },
      ::testing::KilledBySignal(SIGINT), "");
}

}  // namespace
}  // namespace pto::ptoctl
