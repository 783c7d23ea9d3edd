#include <gtest/gtest.h>

#include <vector>

#include "comm/collectives.h"
#include "comm/conformance/conformance.h"

// The maximum number of ranks; far more than CPUs.
namespace pto::comm {
namespace {

class ManyRanksTest : public Conformance {};
PTO_FOR_ALL_BACKENDS(ManyRanksTest);

constexpr uint32_t kRanks = PTO_COMM_MAX_RANKS;

int64_t Soon() { return pto_comm_deadline_after(kLong); }

// Element i of the data that `from` has for `to`.
int64_t Value(uint32_t from, uint32_t to, uint64_t i) {
  return static_cast<int64_t>(from * 1'000'003 + to * 1009 + i);
}

TEST_P(ManyRanksTest, AllCollectives) {
  Run(kRanks, [](Rank& rank) {
    rank.Join();
    pto_comm_window* window = rank.MakeWindow(1, 0, 1);
    const uint32_t me = rank.rank();
    // Along with the call, and through the scratch.
    for (const uint64_t count : {1u, 100u}) {
      std::vector<int64_t> in(kRanks * count), out(kRanks * count);
      const auto fill = [&] {
        for (uint64_t i = 0; i < in.size(); ++i) in[i] = Value(me, i / count, i % count);
      };
      fill();
      ASSERT_EQ(pto_comm_all_to_all(window, in.data(), out.data(), count * 8, Soon()), PTO_COMM_OK)
          << rank.Error();
      for (uint64_t i = 0; i < in.size(); ++i) ASSERT_EQ(out[i], Value(i / count, me, i % count));
      ASSERT_EQ(pto_comm_all_gather(window, in.data(), out.data(), count * 8, Soon()), PTO_COMM_OK)
          << rank.Error();
      for (uint64_t i = 0; i < in.size(); ++i) ASSERT_EQ(out[i], Value(i / count, 0, i % count));
      ASSERT_EQ(pto_comm_reduce_scatter(window, in.data(), out.data(), count, PTO_I64, PTO_COMM_MAX,
                                        Soon()),
                PTO_COMM_OK)
          << rank.Error();
      for (uint64_t i = 0; i < count; ++i) ASSERT_EQ(out[i], Value(kRanks - 1, me, i));
      ASSERT_EQ(pto_comm_all_reduce(window, in.data(), out.data(), in.size(), PTO_I64, PTO_COMM_MIN,
                                    Soon()),
                PTO_COMM_OK)
          << rank.Error();
      for (uint64_t i = 0; i < in.size(); ++i) ASSERT_EQ(out[i], Value(0, i / count, i % count));
      ASSERT_EQ(pto_comm_broadcast(window, in.data(), in.size() * 8, kRanks - 1, Soon()),
                PTO_COMM_OK)
          << rank.Error();
      for (uint64_t i = 0; i < in.size(); ++i) {
        ASSERT_EQ(in[i], Value(kRanks - 1, i / count, i % count));
      }
    }
    // Every rank to every rank.
    for (uint32_t peer = 0; peer < kRanks; ++peer) {
      ASSERT_EQ(pto_comm_notify(window, peer, 0, PTO_ADD, 1), PTO_COMM_OK);
    }
    ASSERT_EQ(pto_comm_wait(window, 0, PTO_EQ, kRanks, Soon(), nullptr), PTO_COMM_OK)
        << rank.Error();
    ASSERT_EQ(pto_comm_window_barrier(window, Soon()), PTO_COMM_OK) << rank.Error();
  });
}

}  // namespace
}  // namespace pto::comm
