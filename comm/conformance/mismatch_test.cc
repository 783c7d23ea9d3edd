#include <gmock/gmock.h>
#include <sched.h>

#include <atomic>
#include <string>
#include <vector>

#include "comm/collectives.h"
#include "comm/conformance/conformance.h"

// Members of a window that call different collectives.
namespace pto::comm {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class MismatchTest : public Conformance {};
PTO_FOR_ALL_BACKENDS(MismatchTest);

int64_t Soon() { return pto_comm_deadline_after(kLong); }

TEST_P(MismatchTest, NamesMembersThatCallDifferentThings) {
  // Repeated, because the second member to fail must get the error while the first is still
  // reporting it.
  constexpr uint64_t kWindows = 100;
  Run(3, [](Rank& rank) {
    rank.Join();
    for (uint64_t id = 1; id <= kWindows && !::testing::Test::HasFailure(); ++id) {
      pto_comm_window* window = rank.MakeWindow(id, 0, 0, {2, 1, 0});
      float values[16] = {};
      const uint64_t count = rank.rank() == 1 ? 9 : 8;
      EXPECT_EQ(pto_comm_all_reduce(window, values, values, count, PTO_F32, PTO_COMM_SUM, Soon()),
                PTO_COMM_MISMATCH);
      EXPECT_THAT(rank.Error(), AllOf(HasSubstr("rank 1 calls all_reduce of 9 F32 SUM"),
                                      HasSubstr("of 8 F32 SUM")));
      EXPECT_EQ(pto_comm_broadcast(window, values, 4, 0, Soon()), PTO_COMM_BROKEN);
      EXPECT_THAT(rank.Error(), HasSubstr("failed here before: rank"));
      // Signals and barriers still work.
      EXPECT_EQ(pto_comm_window_barrier(window, Soon()), PTO_COMM_OK);
    }
  });
}

// The call of one rank, with small buffers.
struct Call {
  enum Kind { kBroadcast, kAllReduce, kAllGather, kReduceScatter, kAllToAll };
  Kind kind;
  uint64_t count;
  uint32_t root = 0;
  pto_dtype dtype = PTO_F32;
  pto_comm_reduce op = PTO_COMM_SUM;
};

int Make(pto_comm_window* window, const Call& call) {
  alignas(8) char in[256] = {};
  alignas(8) char out[256] = {};
  switch (call.kind) {
    case Call::kBroadcast:
      return pto_comm_broadcast(window, in, call.count, call.root, Soon());
    case Call::kAllReduce:
      return pto_comm_all_reduce(window, in, out, call.count, call.dtype, call.op, Soon());
    case Call::kAllGather:
      return pto_comm_all_gather(window, in, out, call.count, Soon());
    case Call::kReduceScatter:
      return pto_comm_reduce_scatter(window, in, out, call.count, call.dtype, call.op, Soon());
    case Call::kAllToAll:
      return pto_comm_all_to_all(window, in, out, call.count, Soon());
  }
  return PTO_COMM_INVALID;
}

TEST_P(MismatchTest, OfEveryArgumentIsNamed) {
  Run(3, [](Rank& rank) {
    rank.Join();
    const struct {
      Call theirs;
      Call of_rank_1;
      const char* theirs_named;
      const char* its_named;
    } kCases[] = {
        {{Call::kAllReduce, 4, 0, PTO_F32},
         {Call::kAllReduce, 4, 0, PTO_I32},
         "all_reduce of 4 F32 SUM",
         "rank 1 calls all_reduce of 4 I32 SUM"},
        {{Call::kReduceScatter, 4, 0, PTO_F32, PTO_COMM_SUM},
         {Call::kReduceScatter, 4, 0, PTO_F32, PTO_COMM_MAX},
         "reduce_scatter of 4 F32 SUM",
         "rank 1 calls reduce_scatter of 4 F32 MAX"},
        {{Call::kAllGather, 8},
         {Call::kAllToAll, 8},
         "all_gather of 8 bytes",
         "rank 1 calls all_to_all of 8 bytes"},
        {{Call::kBroadcast, 8, 0},
         {Call::kBroadcast, 8, 2},
         "broadcast of 8 bytes from member 0",
         "rank 1 calls broadcast of 8 bytes from member 2"},
        {{Call::kAllGather, 8},
         {Call::kAllGather, 0},
         "all_gather of 8 bytes",
         "rank 1 calls all_gather of 0 bytes"},
        {{Call::kBroadcast, 0},
         {Call::kBroadcast, 8},
         "broadcast of 0 bytes",
         "rank 1 calls broadcast of 8 bytes"},
    };
    uint64_t id = 0;
    for (const auto& test : kCases) {
      pto_comm_window* window = rank.MakeWindow(++id, 0, 0);
      const int first = Make(window, rank.rank() == 1 ? test.of_rank_1 : test.theirs);
      // A rank that need not check rank 1's call gets the error in its next call.
      if (test.theirs.kind != Call::kBroadcast || rank.rank() == 1) {
        EXPECT_EQ(first, PTO_COMM_MISMATCH) << test.its_named;
      }
      EXPECT_EQ(pto_comm_window_barrier(window, Soon()), PTO_COMM_OK);
      EXPECT_EQ(Make(window, test.theirs),
                first == PTO_COMM_OK ? PTO_COMM_MISMATCH : PTO_COMM_BROKEN);
      EXPECT_THAT(rank.Error(), AllOf(HasSubstr(test.theirs_named), HasSubstr(test.its_named)));
    }
  });
}

// The same calls, in another order.
TEST_P(MismatchTest, OfTheOrderIsNamed) {
  Run(2, [](Rank& rank) {
    rank.Join();
    pto_comm_window* window = rank.MakeWindow(1, 0, 0);
    const Call calls[] = {{Call::kAllGather, 8}, {Call::kAllReduce, 4}};
    EXPECT_EQ(Make(window, {Call::kAllToAll, 8}), PTO_COMM_OK) << rank.Error();
    EXPECT_EQ(Make(window, calls[rank.rank()]), PTO_COMM_MISMATCH);
    EXPECT_THAT(rank.Error(), AllOf(HasSubstr("rank 0 calls all_gather of 8 bytes"),
                                    HasSubstr("rank 1 calls all_reduce of 4 F32 SUM")));
    EXPECT_EQ(Make(window, calls[1 - rank.rank()]), PTO_COMM_BROKEN);
  });
}

// Neither root waits for the other, so the next collective must report it.
TEST_P(MismatchTest, OfTwoRootsIsToldInTheNextCollective) {
  Run(2, [](Rank& rank) {
    rank.Join();
    pto_comm_window* window = rank.MakeWindow(1, 0, 0);
    EXPECT_EQ(Make(window, {Call::kBroadcast, 8, rank.rank()}), PTO_COMM_OK) << rank.Error();
    EXPECT_EQ(Make(window, {Call::kAllReduce, 4}), PTO_COMM_MISMATCH);
    EXPECT_THAT(rank.Error(), AllOf(HasSubstr("rank 0"), HasSubstr("rank 1"),
                                    HasSubstr("both call all_reduce of 4 F32 SUM in window 1, but "
                                              "their earlier calls there differ")));
  });
}

// Rank 1 is at its second call while the others are in the second step of their first.
TEST_P(MismatchTest, OfStepsIsToldAtOnce) {
  constexpr uint64_t kBytes = 100'000;
  Run(3, [](Rank& rank) {
    rank.Join();
    pto_comm_window* window = rank.MakeWindow(1, kBytes, 0);
    void* base = nullptr;
    ASSERT_EQ(pto_comm_window_local(window, &base), PTO_COMM_OK);
    const int64_t start = pto_comm_deadline_after(0);
    if (rank.rank() == 1) {
      EXPECT_EQ(Make(window, {Call::kBroadcast, 8, 1}), PTO_COMM_OK) << rank.Error();
      EXPECT_EQ(Make(window, {Call::kAllReduce, 4}), PTO_COMM_MISMATCH);
      EXPECT_THAT(rank.Error(), AllOf(HasSubstr("rank 1 calls all_reduce of 4 F32 SUM at step 2"),
                                      HasSubstr("is at step 2 without a call there")));
    } else {
      EXPECT_EQ(pto_comm_broadcast(window, base, kBytes, 0, Soon()), PTO_COMM_OK) << rank.Error();
    }
    EXPECT_EQ(pto_comm_window_barrier(window, Soon()), PTO_COMM_OK);
    EXPECT_LT(pto_comm_deadline_after(0) - start, kLong / 2);
    EXPECT_EQ(Make(window, {Call::kAllGather, 8}),
              rank.rank() == 1 ? PTO_COMM_BROKEN : PTO_COMM_MISMATCH);
    EXPECT_THAT(rank.Error(), HasSubstr("without a call there, so their earlier calls differ"));
  });
}

// Rank 0 waits for rank 1, which never calls because rank 2 has already failed; then both leave.
TEST_P(MismatchTest, IsToldToWhoWaitsForOneThatLeftBecauseOfIt) {
  Run(3, [](Rank& rank) {
    rank.Join();
    pto_comm_window* window = rank.MakeWindow(1, 0, 0);
    std::atomic<int64_t>& failed = rank.board().cells[0];
    if (rank.rank() == 1) {
      while (failed.load() == 0) sched_yield();
    } else {
      EXPECT_EQ(Make(window, {Call::kAllReduce, 1 + rank.rank()}), PTO_COMM_MISMATCH);
      EXPECT_THAT(rank.Error(), AllOf(HasSubstr("rank 2 calls all_reduce of 3 F32 SUM"),
                                      HasSubstr("rank 0 calls all_reduce of 1 F32 SUM")));
      failed.store(1);
    }
    EXPECT_EQ(pto_comm_window_destroy(window), PTO_COMM_OK);
  });
}

// A call without elements is a call like any other: it pairs with the others' empty calls.
TEST_P(MismatchTest, NothingIsAgreedUponToo) {
  Run(3, [](Rank& rank) {
    rank.Join();
    pto_comm_window* window = rank.MakeWindow(1, 0, 0);
    for (int64_t round = 0; round < 20; ++round) {
      EXPECT_EQ(pto_comm_broadcast(window, nullptr, 0, round % 3, Soon()), PTO_COMM_OK);
      EXPECT_EQ(pto_comm_all_reduce(window, nullptr, nullptr, 0, PTO_F16, PTO_COMM_MAX, Soon()),
                PTO_COMM_OK);
      EXPECT_EQ(pto_comm_all_gather(window, nullptr, nullptr, 0, Soon()), PTO_COMM_OK);
      EXPECT_EQ(pto_comm_reduce_scatter(window, nullptr, nullptr, 0, PTO_F64, PTO_COMM_SUM, Soon()),
                PTO_COMM_OK);
      EXPECT_EQ(pto_comm_all_to_all(window, nullptr, nullptr, 0, Soon()), PTO_COMM_OK);
      int64_t sum = round + rank.rank();
      ASSERT_EQ(pto_comm_all_reduce(window, &sum, &sum, 1, PTO_I64, PTO_COMM_SUM, Soon()),
                PTO_COMM_OK)
          << rank.Error();
      ASSERT_EQ(sum, 3 * round + 3);
    }
    // A rank with an empty call does not pair it with the others' next call.
    int64_t value = 7;
    EXPECT_EQ(pto_comm_all_reduce(window, &value, &value, rank.rank() == 2 ? 0 : 1, PTO_I64,
                                  PTO_COMM_SUM, Soon()),
              PTO_COMM_MISMATCH);
    EXPECT_THAT(rank.Error(), AllOf(HasSubstr("rank 2 calls all_reduce of 0 I64 SUM"),
                                    HasSubstr("of 1 I64 SUM")));
    EXPECT_EQ(pto_comm_all_reduce(window, &value, &value, 1, PTO_I64, PTO_COMM_SUM, Soon()),
              PTO_COMM_BROKEN);
    EXPECT_EQ(value, 7);
  });
}

}  // namespace
}  // namespace pto::comm
