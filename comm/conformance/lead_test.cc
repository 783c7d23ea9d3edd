#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>

#include "comm/collectives.h"
#include "comm/conformance/conformance.h"

// How far a member can get ahead of members that it need not wait for.
namespace pto::comm {
namespace {

class LeadTest : public Conformance {};
PTO_FOR_ALL_BACKENDS(LeadTest);

int64_t Soon() { return pto_comm_deadline_after(kLong); }

// How far the root of short broadcasts may be ahead of all others at any time.
constexpr uint64_t kLead = 8;

TEST_P(LeadTest, ARootIsEightAheadOfWhoIsHeldBack) {
  constexpr uint64_t kMostHeld = 40;
  Run(3, [](Rank& rank) {
    rank.Join();
    // For any point where the others stop: the root's knowledge of them may be older by any number
    // of calls.
    for (uint64_t held = 0; held <= kMostHeld; ++held) {
      pto_comm_window* window = rank.MakeWindow(1 + held, 0, 0);
      std::atomic<int64_t>& ahead = rank.board().cells[held];
      const auto broadcast = [&](uint64_t round) {
        uint64_t value = rank.rank() == 0 ? round : ~uint64_t{0};
        ASSERT_EQ(pto_comm_broadcast(window, &value, sizeof(value), 0, Soon()), PTO_COMM_OK)
            << rank.Error();
        ASSERT_EQ(value, round) << "held at " << held;
      };
      for (uint64_t round = 0; round < kMostHeld + 3 * kLead; ++round) {
        if (round == held && rank.rank() == 1) {
          // If the root waited for this rank, it would miss its deadline.
          while (ahead.load() == 0) sched_yield();
        }
        broadcast(round);
        if (round + 1 == held + kLead && rank.rank() == 0) ahead.store(1);
        if (testing::Test::HasFatalFailure()) {
          ahead.store(1);
          return;
        }
      }
      ASSERT_EQ(pto_comm_window_destroy(window), PTO_COMM_OK);
    }
  });
}

}  // namespace
}  // namespace pto::comm
