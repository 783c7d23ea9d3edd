#include <gmock/gmock.h>

#include <limits>
#include <thread>

#include "comm/conformance/conformance.h"

namespace pto::comm {
namespace {

using testing::HasSubstr;

class SignalTest : public Conformance {};
PTO_FOR_ALL_BACKENDS(SignalTest);

TEST_P(SignalTest, PingPong) {
  Run(2, [](Rank& rank) {
    rank.Join();
    pto_comm_window* window = rank.MakeWindow(1, 8, 1);
    const uint32_t peer = 1 - rank.rank();
    for (int64_t turn = 1; turn <= 2000; ++turn) {
      if (rank.rank() == 0) {
        ASSERT_EQ(pto_comm_put(window, peer, 0, &turn, 8), PTO_COMM_OK);
        ASSERT_EQ(pto_comm_notify(window, peer, 0, PTO_ADD, 1), PTO_COMM_OK);
      }
      int64_t seen = 0;
      ASSERT_EQ(pto_comm_wait(window, 0, PTO_GE, turn, pto_comm_deadline_after(kLong), &seen),
                PTO_COMM_OK);
      ASSERT_EQ(seen, turn);
      if (rank.rank() == 1) {
        int64_t got = 0;
        ASSERT_EQ(pto_comm_get(window, 1, 0, &got, 8), PTO_COMM_OK);
        ASSERT_EQ(got, turn);
        ASSERT_EQ(pto_comm_notify(window, peer, 0, PTO_SET, turn), PTO_COMM_OK);
      }
    }
  });
}

TEST_P(SignalTest, AdditionsOfManyAreNotLost) {
  Run(4, [](Rank& rank) {
    rank.Join();
    pto_comm_window* window = rank.MakeWindow(1, 0, 3);
    constexpr int64_t kEach = 1000;
    for (int64_t i = 0; i < kEach; ++i) {
      for (uint32_t peer = 0; peer < 4; ++peer) pto_comm_notify(window, peer, 2, PTO_ADD, 1);
    }
    EXPECT_EQ(pto_comm_wait(window, 2, PTO_EQ, 4 * kEach, pto_comm_deadline_after(kLong), nullptr),
              PTO_COMM_OK);
    EXPECT_EQ(pto_comm_window_barrier(window, pto_comm_deadline_after(kLong)), PTO_COMM_OK);
  });
}

TEST_P(SignalTest, ComparesInEveryWay) {
  Run(1, [](Rank& rank) {
    rank.Join();
    pto_comm_window* window = rank.MakeWindow(1, 0, 1);
    pto_comm_notify(window, 0, 0, PTO_SET, 5);
    const auto holds = [&](pto_compare compare, int64_t value) {
      return pto_comm_wait(window, 0, compare, value, 0, nullptr) == PTO_COMM_OK;
    };
    EXPECT_TRUE(holds(PTO_EQ, 5) && !holds(PTO_EQ, 4));
    EXPECT_TRUE(holds(PTO_NE, 4) && !holds(PTO_NE, 5));
    EXPECT_TRUE(holds(PTO_GT, 4) && !holds(PTO_GT, 5));
    EXPECT_TRUE(holds(PTO_GE, 5) && !holds(PTO_GE, 6));
    EXPECT_TRUE(holds(PTO_LT, 6) && !holds(PTO_LT, 5));
    EXPECT_TRUE(holds(PTO_LE, 5) && !holds(PTO_LE, 4));
    pto_comm_notify(window, 0, 0, PTO_SET, std::numeric_limits<int64_t>::max());
    pto_comm_notify(window, 0, 0, PTO_ADD, 1);
    EXPECT_TRUE(holds(PTO_EQ, std::numeric_limits<int64_t>::min()));
  });
}

TEST_P(SignalTest, TimesOutWithTheValueThatItSaw) {
  Run(2, [](Rank& rank) {
    rank.Join();
    pto_comm_window* window = rank.MakeWindow(1, 0, 2);
    pto_comm_notify(window, rank.rank(), 1, PTO_ADD, 3);
    int64_t seen = 0;
    EXPECT_EQ(pto_comm_wait(window, 1, PTO_GE, 4, pto_comm_deadline_after(kSecond / 50), &seen),
              PTO_COMM_TIMED_OUT);
    EXPECT_EQ(seen, 3);
    EXPECT_THAT(rank.Error(), HasSubstr("in window 1 is 3, not >= 4"));
    EXPECT_EQ(pto_comm_window_barrier(window, pto_comm_deadline_after(kLong)), PTO_COMM_OK);
  });
}

TEST_P(SignalTest, ThreadsOfARankWaitForDifferentSignals) {
  Run(2, [](Rank& rank) {
    rank.Join();
    pto_comm_window* window = rank.MakeWindow(1, 0, 3);
    std::thread waiters[3];
    for (uint32_t i = 0; i < 3; ++i) {
      waiters[i] = std::thread([=] {
        EXPECT_EQ(pto_comm_wait(window, i, PTO_GE, i + 1, pto_comm_deadline_after(kLong), nullptr),
                  PTO_COMM_OK);
      });
    }
    for (uint32_t i = 3; i-- > 0;) pto_comm_notify(window, 1 - rank.rank(), i, PTO_ADD, i + 1);
    for (std::thread& waiter : waiters) waiter.join();
  });
}

TEST_P(SignalTest, EndsWhenAllOthersHaveLeft) {
  Run(3, [](Rank& rank) {
    rank.Join();
    pto_comm_window* window = rank.MakeWindow(1, 0, 1);
    if (rank.rank() == 0) {
      EXPECT_EQ(pto_comm_wait(window, 0, PTO_GE, 1, pto_comm_deadline_after(kLong), nullptr),
                PTO_COMM_RANK_LOST);
      EXPECT_THAT(rank.Error(), HasSubstr("all other members have left window 1"));
      EXPECT_THAT(rank.Error(), HasSubstr("ranks 1 and 2"));
    }
  });
}

}  // namespace
}  // namespace pto::comm
