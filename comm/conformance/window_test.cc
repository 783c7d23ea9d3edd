#include <gmock/gmock.h>

#include <cstring>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "comm/conformance/conformance.h"

namespace pto::comm {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class WindowTest : public Conformance {};
PTO_FOR_ALL_BACKENDS(WindowTest);

int TryCreate(Rank& rank, const pto_comm_window_options& options, int64_t nanos = kLong) {
  pto_comm_window* window = nullptr;
  const int status =
      pto_comm_window_create(rank.comm(), &options, pto_comm_deadline_after(nanos), &window);
  EXPECT_EQ(window != nullptr, status == PTO_COMM_OK);
  return status;
}

pto_comm_window_options OptionsOf(uint64_t id, uint64_t bytes) {
  pto_comm_window_options options{};
  options.struct_size = sizeof(options);
  options.id = id;
  options.bytes = bytes;
  return options;
}

void PassBarrier(Rank& rank, pto_comm_window* window) {
  ASSERT_EQ(pto_comm_window_barrier(window, pto_comm_deadline_after(kLong)), PTO_COMM_OK)
      << rank.Error();
}

TEST_P(WindowTest, StartsAsZeros) {
  Run(2, [](Rank& rank) {
    rank.Join();
    constexpr uint64_t kBytes = 100'001;
    // The second window reuses the memory of the first, if the backend does that.
    for (uint64_t id = 0; id < 3; ++id) {
      pto_comm_window* window = rank.MakeWindow(id, kBytes, 5);
      void* base = nullptr;
      ASSERT_EQ(pto_comm_window_local(window, &base), PTO_COMM_OK);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(base) % 4096, 0u);
      EXPECT_EQ(pto_comm_window_bytes(window), kBytes);
      const auto* bytes = static_cast<const unsigned char*>(base);
      EXPECT_EQ(std::accumulate(bytes, bytes + kBytes, uint64_t{0}), 0u);
      for (uint32_t i = 0; i < 5; ++i) {
        int64_t value = -1;
        EXPECT_EQ(pto_comm_read_signal(window, i, &value), PTO_COMM_OK);
        EXPECT_EQ(value, 0);
      }
      PassBarrier(rank, window);
      std::memset(base, 0xff, kBytes);
      pto_comm_notify(window, 0, 4, PTO_ADD, 1);
      pto_comm_window_destroy(window);
    }
  });
}

TEST_P(WindowTest, PutGetAndRemoteSeeTheSameBytes) {
  Run(4, [](Rank& rank) {
    rank.Join();
    pto_comm_window* window = rank.MakeWindow(1, 4096, 0);
    for (uint32_t peer = 0; peer < 4; ++peer) {
      const int64_t value = 1000 * rank.rank() + peer;
      ASSERT_EQ(pto_comm_put(window, peer, rank.rank() * 8, &value, 8), PTO_COMM_OK);
    }
    PassBarrier(rank, window);
    for (uint32_t peer = 0; peer < 4; ++peer) {
      for (uint32_t from = 0; from < 4; ++from) {
        int64_t value = 0;
        ASSERT_EQ(pto_comm_get(window, peer, from * 8, &value, 8), PTO_COMM_OK);
        EXPECT_EQ(value, 1000 * from + peer);
        void* address = nullptr;
        const int status = pto_comm_window_remote(window, peer, from * 8, &address);
        if (status == PTO_COMM_NOT_SUPPORTED) continue;
        ASSERT_EQ(status, PTO_COMM_OK);
        std::memcpy(&value, address, 8);
        EXPECT_EQ(value, 1000 * from + peer);
      }
    }
  });
}

TEST_P(WindowTest, KeepsToItsBounds) {
  Run(2, [](Rank& rank) {
    rank.Join();
    pto_comm_window* window = rank.MakeWindow(1, 100, 2);
    char bytes[101] = {};
    EXPECT_EQ(pto_comm_put(window, 0, 100, bytes, 0), PTO_COMM_OK);
    EXPECT_EQ(pto_comm_put(window, 0, 0, bytes, 101), PTO_COMM_OUT_OF_RANGE);
    EXPECT_THAT(rank.Error(), HasSubstr("101 bytes at 0 are beyond the 100 of window 1"));
    EXPECT_EQ(pto_comm_put(window, 0, ~uint64_t{0}, bytes, 2), PTO_COMM_OUT_OF_RANGE);
    EXPECT_EQ(pto_comm_get(window, 0, 1, bytes, 100), PTO_COMM_OUT_OF_RANGE);
    EXPECT_EQ(pto_comm_get(window, 2, 0, bytes, 1), PTO_COMM_OUT_OF_RANGE);
    EXPECT_THAT(rank.Error(), HasSubstr("no member 2"));
    EXPECT_EQ(pto_comm_notify(window, 1, 2, PTO_ADD, 1), PTO_COMM_OUT_OF_RANGE);
    EXPECT_THAT(rank.Error(), HasSubstr("no signal 2"));
    EXPECT_EQ(pto_comm_notify(window, 1, 1, static_cast<pto_notify_op>(3), 1), PTO_COMM_INVALID);
    EXPECT_EQ(pto_comm_wait(window, 0, static_cast<pto_compare>(0), 0, 0, nullptr),
              PTO_COMM_INVALID);
    PassBarrier(rank, window);
  });
}

TEST_P(WindowTest, DomainsOverlapWithOtherNumbersInEach) {
  Run(4, [](Rank& rank) {
    rank.Join();
    const std::vector<uint32_t> first = {2, 0, 3};
    const std::vector<uint32_t> second = {1, 2};
    pto_comm_window* a = nullptr;
    pto_comm_window* b = nullptr;
    if (rank.rank() != 1) a = rank.MakeWindow(10, 64, 1, first);
    if (rank.rank() == 1 || rank.rank() == 2) b = rank.MakeWindow(11, 64, 1, second);
    if (a != nullptr) {
      EXPECT_EQ(pto_comm_window_size(a), 3u);
      EXPECT_EQ(first[pto_comm_window_rank(a)], rank.rank());
      // In a ring of the window's own ranks.
      const uint32_t next = (pto_comm_window_rank(a) + 1) % 3;
      EXPECT_EQ(pto_comm_notify(a, next, 0, PTO_SET, 100 + rank.rank()), PTO_COMM_OK);
      const uint32_t before = first[(pto_comm_window_rank(a) + 2) % 3];
      EXPECT_EQ(pto_comm_wait(a, 0, PTO_EQ, 100 + before, pto_comm_deadline_after(kLong), nullptr),
                PTO_COMM_OK);
      PassBarrier(rank, a);
    }
    if (b != nullptr) {
      EXPECT_EQ(second[pto_comm_window_rank(b)], rank.rank());
      PassBarrier(rank, b);
    }
  });
}

TEST_P(WindowTest, NamesRanksThatDisagree) {
  Run(3, [](Rank& rank) {
    rank.Join();
    // All members learn of it, well before the deadline.
    EXPECT_EQ(TryCreate(rank, OptionsOf(1, rank.rank() == 2 ? 8192 : 4096)), PTO_COMM_MISMATCH);
    EXPECT_THAT(rank.Error(), AllOf(HasSubstr("rank 2 asks for window 1 with 8192 bytes"),
                                    HasSubstr("rank 0 made it with 4096")));
    const uint32_t forward[] = {0, 1, 2};
    const uint32_t backward[] = {2, 1, 0};
    pto_comm_window_options options = OptionsOf(2, 64);
    options.rank_count = 3;
    options.ranks = rank.rank() == 2 ? backward : forward;
    EXPECT_EQ(TryCreate(rank, options), PTO_COMM_MISMATCH);
    EXPECT_THAT(rank.Error(), AllOf(HasSubstr("2,1,0"), HasSubstr("0,1,2")));
    options = OptionsOf(3, 64);
    options.signal_count = rank.rank() == 1 ? 5 : 4;
    EXPECT_EQ(TryCreate(rank, options), PTO_COMM_MISMATCH);
    EXPECT_THAT(rank.Error(), AllOf(HasSubstr("rank 1 asks for window 3 with 5 signals"),
                                    HasSubstr("rank 0 made it with 4")));
    options = OptionsOf(4, 64);
    options.scratch_bytes = rank.rank() == 1 ? 70'000 : 80'000;
    EXPECT_EQ(TryCreate(rank, options), PTO_COMM_MISMATCH);
    EXPECT_THAT(rank.Error(),
                AllOf(HasSubstr("rank 1 asks for window 4 with 70000 bytes of scratch"),
                      HasSubstr("rank 0 made it with 80000")));
    // The next window is not affected.
    PassBarrier(rank, rank.MakeWindow(5, 64, 0));
  });
}

TEST_P(WindowTest, ChecksItsOptions) {
  Run(2, [](Rank& rank) {
    rank.Join();
    pto_comm_window_options options = OptionsOf(1, 64);
    const uint32_t twice[] = {1, 1};
    const uint32_t other[] = {1 - rank.rank()};
    options.ranks = twice;
    options.rank_count = 2;
    EXPECT_EQ(TryCreate(rank, options), PTO_COMM_INVALID);
    options.ranks = other;
    options.rank_count = 1;
    EXPECT_EQ(TryCreate(rank, options), PTO_COMM_INVALID);
    EXPECT_THAT(rank.Error(), HasSubstr(absl::StrCat("rank ", rank.rank(), " is not among")));
    options = OptionsOf(1, 64);
    options.signal_count = PTO_COMM_MAX_SIGNALS + 1;
    EXPECT_EQ(TryCreate(rank, options), PTO_COMM_INVALID);
    rank.MakeWindow(1, 64, 0);
    EXPECT_EQ(TryCreate(rank, OptionsOf(1, 64)), PTO_COMM_INVALID);
    EXPECT_THAT(rank.Error(), HasSubstr("has used window id 1 before"));
  });
}

TEST_P(WindowTest, FailsForAllWhenOneDoesNotCome) {
  Run(3, [](Rank& rank) {
    rank.Join();
    if (rank.rank() != 1) {
      EXPECT_EQ(TryCreate(rank, OptionsOf(1, 64), kSecond / 20), PTO_COMM_TIMED_OUT);
      EXPECT_THAT(rank.Error(), HasSubstr("rank 1 did not join window 1 in time"));
      rank.board().cells[0].fetch_add(1);
    } else {
      while (rank.board().cells[0].load() < 2) {
      }
      EXPECT_EQ(TryCreate(rank, OptionsOf(1, 64)), PTO_COMM_TIMED_OUT);
      EXPECT_THAT(rank.Error(), HasSubstr("rank 1 did not join window 1 in time"));
    }
    PassBarrier(rank, rank.MakeWindow(2, 64, 0));
  });
}

TEST_P(WindowTest, ThatIsTooLargeSaysSo) {
  Run(2, [](Rank& rank) {
    rank.Join();
    EXPECT_EQ(TryCreate(rank, OptionsOf(1, uint64_t{1} << 50)), PTO_COMM_INVALID);
    EXPECT_EQ(TryCreate(rank, OptionsOf(2, uint64_t{1} << 44)), PTO_COMM_NO_MEMORY) << rank.Error();
    EXPECT_EQ(pto_comm_barrier(rank.comm(), pto_comm_deadline_after(kLong)), PTO_COMM_OK);
  });
}

}  // namespace
}  // namespace pto::comm
