#include <gmock/gmock.h>

#include "comm/conformance/conformance.h"

namespace pto::comm {
namespace {

using testing::HasSubstr;

class BarrierTest : public Conformance {};
PTO_FOR_ALL_BACKENDS(BarrierTest);

TEST_P(BarrierTest, NobodyLeavesBeforeAllHaveCome) {
  for (const uint32_t size : {1u, 2u, 5u}) {
    Run(size, [size](Rank& rank) {
      rank.Join();
      pto_comm_window* window = rank.MakeWindow(1, 0, 0);
      std::atomic<int64_t>& came = rank.board().cells[0];
      for (int64_t round = 1; round <= 200; ++round) {
        came.fetch_add(1);
        ASSERT_EQ(pto_comm_window_barrier(window, pto_comm_deadline_after(kLong)), PTO_COMM_OK);
        ASSERT_GE(came.load(), round * size);
        ASSERT_LE(came.load(), (round + 1) * size);
        ASSERT_EQ(pto_comm_barrier(rank.comm(), pto_comm_deadline_after(kLong)), PTO_COMM_OK);
      }
    });
  }
}

TEST_P(BarrierTest, ThatTimedOutLeavesNothingBehind) {
  Run(3, [](Rank& rank) {
    rank.Join();
    pto_comm_window* window = rank.MakeWindow(1, 0, 0);
    std::atomic<int64_t>& gave_up = rank.board().cells[0];
    std::atomic<int64_t>& last_gave_up = rank.board().cells[1];
    std::atomic<int64_t>& came = rank.board().cells[2];
    for (int64_t round = 1; round <= 5; ++round) {
      if (rank.rank() != 2) {
        EXPECT_EQ(pto_comm_window_barrier(window, pto_comm_deadline_after(kSecond / 100)),
                  PTO_COMM_TIMED_OUT);
        EXPECT_THAT(rank.Error(), HasSubstr("did not reach the barrier of window 1"));
        EXPECT_THAT(rank.Error(), HasSubstr("2"));
        gave_up.fetch_add(1);
      } else {
        while (gave_up.load() < 2 * round) {
        }
        // The others were there and have given up: it must not pass.
        EXPECT_EQ(pto_comm_window_barrier(window, pto_comm_deadline_after(kSecond / 100)),
                  PTO_COMM_TIMED_OUT);
        last_gave_up.fetch_add(1);
      }
      while (last_gave_up.load() < round) {
      }
      came.fetch_add(1);
      ASSERT_EQ(pto_comm_window_barrier(window, pto_comm_deadline_after(kLong)), PTO_COMM_OK);
      EXPECT_EQ(came.load(), 3 * round);
      ASSERT_EQ(pto_comm_window_barrier(window, pto_comm_deadline_after(kLong)), PTO_COMM_OK);
    }
  });
}

// Deadlines so short that some barriers complete just as a member gives up: all members must agree
// on whether the barrier happened.
TEST_P(BarrierTest, AllAgreeWhetherItHappened) {
  Run(3, [](Rank& rank) {
    rank.Join();
    pto_comm_window* window = rank.MakeWindow(1, 0, 0);
    pto_comm_window* steady = rank.MakeWindow(2, 0, 0);
    for (int i = 0; i < 300; ++i) {
      std::atomic<int64_t>& passed = rank.board().cells[i % 2];
      const int64_t nanos = (rank.rank() * 37 + i * 101) % 300 * 1000;
      if (pto_comm_window_barrier(window, pto_comm_deadline_after(nanos)) == PTO_COMM_OK) {
        passed.fetch_add(1);
      }
      ASSERT_EQ(pto_comm_window_barrier(steady, pto_comm_deadline_after(kLong)), PTO_COMM_OK);
      ASSERT_TRUE(passed.load() == 0 || passed.load() == 3) << passed.load();
      ASSERT_EQ(pto_comm_window_barrier(steady, pto_comm_deadline_after(kLong)), PTO_COMM_OK);
      passed.store(0);
    }
  });
}

TEST_P(BarrierTest, NamesWhoHasLeft) {
  Run(3, [](Rank& rank) {
    rank.Join();
    pto_comm_window* window = rank.MakeWindow(1, 0, 0);
    if (rank.rank() == 1) {
      pto_comm_window_destroy(window);
    } else {
      EXPECT_EQ(pto_comm_window_barrier(window, pto_comm_deadline_after(kLong)),
                PTO_COMM_RANK_LOST);
      EXPECT_THAT(rank.Error(), HasSubstr("rank 1 ("));
      EXPECT_THAT(rank.Error(), HasSubstr("has left window 1"));
    }
    EXPECT_EQ(pto_comm_barrier(rank.comm(), pto_comm_deadline_after(kLong)), PTO_COMM_OK);
  });
}

TEST_P(BarrierTest, NamesWhoHasAborted) {
  Run(3, [](Rank& rank) {
    rank.Join();
    pto_comm_window* window = rank.MakeWindow(1, 0, 1);
    if (rank.rank() == 2) {
      pto_comm_abort(rank.comm(), "chip 2 is on fire");
    } else if (rank.rank() == 1) {
      EXPECT_EQ(pto_comm_window_barrier(window, pto_comm_deadline_after(kLong)),
                PTO_COMM_RANK_LOST);
    } else {
      EXPECT_EQ(pto_comm_wait(window, 0, PTO_GE, 1, pto_comm_deadline_after(kLong), nullptr),
                PTO_COMM_RANK_LOST);
    }
    if (rank.rank() != 2) {
      EXPECT_THAT(rank.Error(), HasSubstr("rank 2 ("));
      EXPECT_THAT(rank.Error(), HasSubstr("aborted: chip 2 is on fire"));
    }
  });
}

}  // namespace
}  // namespace pto::comm
