#include <gmock/gmock.h>

#include "comm/conformance/conformance.h"

namespace pto::comm {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class Join : public Conformance {};
PTO_FOR_ALL_BACKENDS(Join);

// Returns the status of pto_comm_init; destroys the communicator.
int TryJoin(const pto_comm_options& options) {
  pto_comm* comm = nullptr;
  const int status = pto_comm_init(&options, &comm);
  EXPECT_EQ(comm != nullptr, status == PTO_COMM_OK);
  if (comm != nullptr) pto_comm_destroy(comm);
  return status;
}

TEST_P(Join, KnowsRankAndSize) {
  Run(3, [](Rank& rank) {
    pto_comm* comm = rank.Join();
    EXPECT_EQ(pto_comm_rank(comm), rank.rank());
    EXPECT_EQ(pto_comm_size(comm), 3u);
  });
}

TEST_P(Join, WorksAgainUnderTheSameName) {
  Run(2, [](Rank& rank) {
    for (int i = 0; i < 20; ++i) {
      pto_comm* comm = rank.Join();
      ASSERT_NE(comm, nullptr);
      // Otherwise one rank could rejoin before the other has left, and find the job still running.
      ASSERT_EQ(pto_comm_barrier(comm, pto_comm_deadline_after(kLong)), PTO_COMM_OK);
      pto_comm_destroy(comm);
      rank.Forget();
      // Both have left when the count is even.
      const int64_t mine = rank.board().cells[0].fetch_add(1) + 1;
      while (rank.board().cells[0].load() < (mine + 1) / 2 * 2) {
      }
    }
  });
}

TEST_P(Join, NamesWhoDidNotComeAndCanBeTriedAgain) {
  Run(3, [](Rank& rank) {
    if (rank.rank() == 1) {
      // Joins only after the others have given up once.
      while (rank.board().cells[0].load() < 2) {
      }
    } else {
      EXPECT_EQ(TryJoin(rank.Options(kSecond / 20)), PTO_COMM_TIMED_OUT);
      EXPECT_THAT(ThreadError(), HasSubstr("TIMED_OUT: rank"));
      EXPECT_THAT(ThreadError(), HasSubstr("1"));
      rank.board().cells[0].fetch_add(1);
    }
    rank.Join();
  });
}

TEST_P(Join, RefusesAnotherNumberOfRanks) {
  Run(2, [](Rank& rank) {
    rank.Join();
    if (rank.rank() == 1) {
      pto_comm_options options = rank.Options();
      options.size = 5;
      EXPECT_EQ(TryJoin(options), PTO_COMM_MISMATCH);
      EXPECT_THAT(ThreadError(), AllOf(HasSubstr("rank 1 says"), HasSubstr("has 5 ranks"),
                                       HasSubstr("started it with 2")));
    }
    pto_comm_barrier(rank.comm(), pto_comm_deadline_after(kLong));
  });
}

TEST_P(Join, RefusesASecondJobOfTheSameName) {
  Run(2, [](Rank& rank) {
    rank.Join();
    if (rank.rank() == 0) {
      pto_comm_options options = rank.Options();
      options.generation = 8;
      EXPECT_EQ(TryJoin(options), PTO_COMM_IN_USE);
      EXPECT_THAT(ThreadError(),
                  AllOf(HasSubstr("is already running"), HasSubstr("with generation 7; rank 0"),
                        HasSubstr("came with generation 8")));
    }
    pto_comm_barrier(rank.comm(), pto_comm_deadline_after(kLong));
  });
}

TEST_P(Join, RefusesATakenRank) {
  Run(2, [](Rank& rank) {
    rank.Join();
    if (rank.rank() == 0) {
      EXPECT_EQ(TryJoin(rank.Options()), PTO_COMM_IN_USE);
      EXPECT_THAT(ThreadError(), HasSubstr("rank 0 of job"));
      EXPECT_THAT(ThreadError(), HasSubstr("is taken by"));
    }
    pto_comm_barrier(rank.comm(), pto_comm_deadline_after(kLong));
  });
}

TEST_P(Join, ChecksItsOptions) {
  Run(1, [](Rank& rank) {
    pto_comm_options options = rank.Options();
    options.rank = 1;
    EXPECT_EQ(TryJoin(options), PTO_COMM_INVALID);
    EXPECT_THAT(ThreadError(), HasSubstr("rank 1 of 1"));
    options = rank.Options();
    options.name = "a/b";
    EXPECT_EQ(TryJoin(options), PTO_COMM_INVALID);
    options = rank.Options();
    options.size = PTO_COMM_MAX_RANKS + 1;
    EXPECT_EQ(TryJoin(options), PTO_COMM_INVALID);
    options = rank.Options();
    options.struct_size = 8;
    EXPECT_EQ(TryJoin(options), PTO_COMM_INVALID);
  });
}

}  // namespace
}  // namespace pto::comm
