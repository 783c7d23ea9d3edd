#include <algorithm>
#include <cstring>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "kernels/collectives/phase_runner.h"
#include "kernels/collectives/reference.h"
#include "kernels/dtype.h"
#include "kernels/kernel_tester.h"

namespace pto::kernels::collectives {
namespace {

constexpr uint32_t kReducible[] = {PTO_F32, PTO_F16, PTO_BF16, PTO_F64, PTO_I8,  PTO_I16,
                                   PTO_I32, PTO_I64, PTO_U8,   PTO_U16, PTO_U32, PTO_U64};
constexpr unsigned char kGuard = 0x5a;

// Inputs and outputs of all ranks, surrounded by guards, and the expected result.
struct Buffers {
  Buffers(uint32_t dtype, uint32_t ranks, int64_t in_count, int64_t out_count)
      : dtype(dtype), in_count(in_count), out_count(out_count), in(ranks), out(ranks) {
    uint64_t state = 1;
    for (uint32_t r = 0; r < ranks; ++r) {
      in[r].assign(Bytes(in_count) + 128, std::byte{kGuard});
      out[r].assign(Bytes(out_count) + 128, std::byte{kGuard});
      Elements elements;
      for (int64_t i = 0; i < in_count; ++i) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        elements.push_back(FromDouble(dtype, static_cast<double>(state >> 40) / 0x1p22 - 2));
      }
      StoreElements(dtype, elements, in[r].data() + 64);
    }
  }
  size_t Bytes(int64_t count) const { return static_cast<size_t>(count) * DtypeSize(dtype); }

  std::vector<RankTensors> Tensors() {
    std::vector<RankTensors> tensors;
    for (size_t r = 0; r < in.size(); ++r) {
      tensors.push_back({DenseTensor(dtype, in_count, in[r].data() + 64),
                         DenseTensor(dtype, out_count, out[r].data() + 64)});
    }
    return tensors;
  }
  std::vector<PlainRank> Plain() const {
    std::vector<PlainRank> ranks(in.size());
    for (size_t r = 0; r < in.size(); ++r) {
      ranks[r].in = LoadElements(dtype, in[r].data() + 64, in_count);
      ranks[r].out = LoadElements(dtype, out[r].data() + 64, out_count);
    }
    return ranks;
  }
  bool GuardsUntouched() const {
    for (const auto* all : {&in, &out}) {
      for (const std::vector<std::byte>& memory : *all) {
        for (size_t i = 0; i < 64; ++i) {
          if (memory[i] != std::byte{kGuard}) return false;
          if (memory[memory.size() - 1 - i] != std::byte{kGuard}) return false;
        }
      }
    }
    return true;
  }

  const uint32_t dtype;
  const int64_t in_count;
  const int64_t out_count;
  std::vector<std::vector<std::byte>> in;
  std::vector<std::vector<std::byte>> out;
};

// Runs the kernel on fresh buffers and compares the outputs bit by bit.
void Expect(const char* kernel, const std::vector<int64_t>& scalars, Buffers buffers,
            uint32_t blocks) {
  SCOPED_TRACE(absl::StrCat(kernel, " ", DtypeName(buffers.dtype), " ranks ", buffers.in.size(),
                            " in ", buffers.in_count, " out ", buffers.out_count, " blocks ",
                            blocks));
  std::vector<PlainRank> plain = buffers.Plain();
  PlainCollective(kernel, buffers.dtype, scalars, &plain);
  const PhaseResult result = RunPhases(Builtin(kernel), buffers.Tensors(), scalars, blocks);
  ASSERT_EQ(result.refused, "");
  ASSERT_EQ(result.code, 0);
  const std::vector<PlainRank> after = buffers.Plain();
  for (size_t r = 0; r < plain.size(); ++r) {
    ASSERT_EQ(after[r].in, plain[r].in) << "in of rank " << r;
    ASSERT_EQ(after[r].out, plain[r].out) << "out of rank " << r;
  }
  EXPECT_TRUE(buffers.GuardsUntouched());
}

constexpr uint32_t kRankCounts[] = {1, 2, 3, 5, 8, 64};
constexpr int64_t kCounts[] = {0, 1, 3, 17, 100, 5001};

template <typename Test>
void ForSizes(Test test) {
  for (const uint32_t ranks : kRankCounts) {
    for (const int64_t count : kCounts) {
      // all_to_all would take too long in plain loops.
      if (count * ranks > 50'000) continue;
      for (const uint32_t blocks : {1u, 3u}) {
        test(ranks, count, blocks);
        if (::testing::Test::HasFailure()) return;
      }
    }
  }
}

TEST(CollectivesTest, AllReduceInTheOrderOfTheRanks) {
  ForSizes([](uint32_t ranks, int64_t count, uint32_t blocks) {
    for (const int64_t algorithm : {0, 1, 2}) {
      Expect("all_reduce", {1, algorithm, 0}, Buffers(PTO_F32, ranks, count, count), blocks);
    }
    for (const int64_t algorithm : {3, 4}) {
      Expect("all_reduce", {1, algorithm, 1}, Buffers(PTO_BF16, ranks, count, count), blocks);
      Expect("all_reduce", {2, algorithm, 0}, Buffers(PTO_I32, ranks, count, count), blocks);
    }
  });
}

TEST(CollectivesTest, EveryTypeAndOperation) {
  for (const uint32_t dtype : kReducible) {
    for (const int64_t op : {1, 2, 3, 4}) {
      Expect("all_reduce", {op, 0, 0}, Buffers(dtype, 3, 777, 777), 2);
      Expect("reduce", {op, 1}, Buffers(dtype, 3, 777, 777), 2);
      Expect("reduce_scatter", {op}, Buffers(dtype, 3, 3 * 259, 259), 2);
      if (IsFloating(dtype) && op <= 2) continue;
      Expect("all_reduce", {op, 3, 0}, Buffers(dtype, 5, 777, 777), 2);
      Expect("all_reduce", {op, 4, 0}, Buffers(dtype, 4, 777, 777), 2);
    }
  }
}

TEST(CollectivesTest, RingsOfHalvesRoundOnce) {
  // 2048 + 1 rounds back to 2048 in binary16: only partial sums with more bits reach 2052.
  for (const int64_t algorithm : {3, 4}) {
    Buffers buffers(PTO_F16, 5, 40, 40);
    for (size_t r = 0; r < 5; ++r) {
      const double value = r == 0 ? 2048 : 1;
      StoreElements(PTO_F16, Elements(40, FromDouble(PTO_F16, value)), buffers.in[r].data() + 64);
    }
    ASSERT_EQ(RunPhases(Builtin("all_reduce"), buffers.Tensors(), {1, algorithm, 0}).refused, "");
    for (const PlainRank& rank : buffers.Plain()) {
      EXPECT_EQ(rank.out, Elements(40, FromDouble(PTO_F16, 2052)));
    }
  }
}

TEST(CollectivesTest, WhatMovesData) {
  ForSizes([](uint32_t ranks, int64_t count, uint32_t blocks) {
    const int64_t all = count * ranks;
    for (const uint32_t dtype : {PTO_U8, PTO_F64}) {
      const int64_t last = ranks - 1;
      Expect("broadcast", {last}, Buffers(dtype, ranks, count, count), blocks);
      Expect("all_gather", {}, Buffers(dtype, ranks, count, all), blocks);
      Expect("gather", {last}, Buffers(dtype, ranks, count, all), blocks);
      Expect("scatter", {last / 2}, Buffers(dtype, ranks, all, count), blocks);
      Expect("all_to_all", {}, Buffers(dtype, ranks, all, all), blocks);
      Expect("send_recv", {0, last}, Buffers(dtype, ranks, count, count), blocks);
      Expect("reduce_scatter", {4}, Buffers(PTO_I16, ranks, all, count), blocks);
    }
  });
}

TEST(CollectivesTest, ABarrierNeedsNothing) {
  EXPECT_EQ(RunPhases(Builtin("barrier"), std::vector<RankTensors>(5), {}).refused, "");
}

// ---- rejected launches -----------------------------------------------------------------

std::string Refused(const char* kernel, const std::vector<int64_t>& scalars,
                    const std::vector<RankTensors>& ranks) {
  return RunPhases(Builtin(kernel), ranks, scalars).refused;
}

class CollectiveRefusalTest : public ::testing::Test {
 protected:
  // `counts`: elements of in and out of each rank.
  std::vector<RankTensors> Ranks(const std::vector<std::pair<int64_t, int64_t>>& counts) {
    std::vector<RankTensors> ranks;
    memory_.assign(counts.size() * 2, std::vector<double>(1000));
    for (size_t r = 0; r < counts.size(); ++r) {
      ranks.push_back({DenseTensor(PTO_F32, counts[r].first, memory_[2 * r].data()),
                       DenseTensor(PTO_F32, counts[r].second, memory_[2 * r + 1].data())});
    }
    return ranks;
  }
  std::vector<std::vector<double>> memory_;
};

TEST_F(CollectiveRefusalTest, CountsThatDoNotFit) {
  EXPECT_EQ(Refused("all_reduce", {1, 0, 0}, Ranks({{128, 128}, {128, 128}, {100, 128}})),
            "all_reduce: rank 2 has 100 elements in in, rank 0 has 128");
  EXPECT_EQ(Refused("all_reduce", {1, 0, 0}, Ranks({{8, 8}, {8, 7}})),
            "all_reduce: rank 1 has 7 elements in out, not 8");
  EXPECT_EQ(Refused("all_gather", {}, Ranks({{8, 16}, {8, 8}})),
            "all_gather: rank 1 has 8 elements in out, not 16");
  EXPECT_EQ(Refused("reduce_scatter", {1}, Ranks({{16, 8}, {15, 8}})),
            "reduce_scatter: rank 1 has 15 elements in in, not 16");
  EXPECT_EQ(Refused("all_to_all", {}, Ranks({{7, 7}, {7, 7}})),
            "all_to_all: 7 elements do not make 2 equal parts");
  EXPECT_EQ(Refused("broadcast", {1}, Ranks({{1, 9}, {8, 8}})),
            "broadcast: rank 0 has 9 elements in out, not 8");
  EXPECT_EQ(Refused("gather", {1}, Ranks({{8, 0}, {8, 15}})),
            "gather: rank 1 has 15 elements in out, not 16");
  EXPECT_EQ(Refused("scatter", {0}, Ranks({{15, 8}, {0, 8}})),
            "scatter: rank 0 has 15 elements in in, not 16");
}

TEST_F(CollectiveRefusalTest, WhatNobodyNeedsMayHaveAnySize) {
  EXPECT_EQ(Refused("broadcast", {1}, Ranks({{0, 8}, {8, 8}})), "");
  EXPECT_EQ(Refused("gather", {1}, Ranks({{8, 0}, {8, 16}})), "");
  EXPECT_EQ(Refused("scatter", {0}, Ranks({{16, 8}, {0, 8}})), "");
  EXPECT_EQ(Refused("reduce", {1, 1}, Ranks({{8, 0}, {8, 8}})), "");
  EXPECT_EQ(Refused("send_recv", {0, 2}, Ranks({{8, 0}, {1, 2}, {0, 8}})), "");
}

TEST_F(CollectiveRefusalTest, ScalarsThatNameNothing) {
  const std::vector<RankTensors> ranks = Ranks({{8, 8}, {8, 8}});
  EXPECT_EQ(Refused("all_reduce", {5, 0, 0}, ranks), "all_reduce: op is 5, not 1 to 4");
  EXPECT_EQ(Refused("all_reduce", {1, 5, 0}, ranks), "all_reduce: algorithm is 5, not 0 to 4");
  EXPECT_EQ(Refused("all_reduce", {1, 0, 2}, ranks), "all_reduce: deterministic is 2, not 0 to 1");
  EXPECT_EQ(Refused("broadcast", {2}, ranks), "broadcast: root is 2, and there are 2 ranks");
  EXPECT_EQ(Refused("send_recv", {0, -1}, ranks), "send_recv: to is -1, and there are 2 ranks");
  EXPECT_EQ(Refused("barrier", {}, std::vector<RankTensors>(65)),
            "barrier: works with at most 64 ranks, not 65");
}

TEST_F(CollectiveRefusalTest, TypesAndStridesThatDiffer) {
  std::vector<RankTensors> ranks = Ranks({{8, 8}, {8, 8}});
  ranks[1][1].dtype = PTO_F16;
  EXPECT_EQ(Refused("all_reduce", {1, 0, 0}, ranks),
            "all_reduce: rank 1 has F16 in out, rank 0 has F32 in in");
  ranks = Ranks({{8, 8}, {8, 8}});
  ranks[1][0].strides[0] = 2;
  EXPECT_EQ(Refused("all_reduce", {1, 0, 0}, ranks),
            "all_reduce: rank 1 has in [8] with strides [2], which is not dense");
}

TEST_F(CollectiveRefusalTest, OverlapsThatMeanNothing) {
  std::vector<RankTensors> ranks = Ranks({{8, 8}, {8, 8}});
  auto* const memory = reinterpret_cast<float*>(memory_[2].data());
  ranks[1][1].data = memory + 1;
  EXPECT_EQ(Refused("all_reduce", {1, 0, 0}, ranks),
            "all_reduce: rank 1: in and out overlap, and in does not begin where out does");
  EXPECT_NE(Refused("all_to_all", {}, ranks), "");
  EXPECT_EQ(Refused("broadcast", {0}, ranks), "") << "rank 1's in is not read";
  ranks[1][1].data = memory + 8;
  EXPECT_EQ(Refused("all_reduce", {1, 0, 0}, ranks), "");
  ranks[1][1].data = memory;
  EXPECT_EQ(Refused("all_reduce", {1, 0, 0}, ranks), "");

  ranks = Ranks({{8, 16}, {8, 16}});
  ranks[1][1].data = ranks[1][0].data;
  EXPECT_EQ(Refused("all_gather", {}, ranks),
            "all_gather: rank 1: in and out overlap, and in does not begin 8 elements into out");
  ranks[1][0].data = memory + 8;
  EXPECT_EQ(Refused("all_gather", {}, ranks), "");
  EXPECT_EQ(Refused("gather", {1}, ranks), "");
}

// Two ranks with 8 elements in and out each, and matching counts.
class AllToAllVTest : public ::testing::Test {
 protected:
  AllToAllVTest() {
    for (size_t r = 0; r < 2; ++r) {
      std::fill_n(memory_[r], std::size(memory_[r]), kGuarded);
      for (int64_t i = 0; i < 8; ++i) in_[r][i] = static_cast<int64_t>(10 * r) + i;
      ranks_.push_back({DenseTensor(PTO_I64, 8, in_[r]), DenseTensor(PTO_I64, 2, sends_[r]),
                        DenseTensor(PTO_I64, 8, memory_[r] + 8),
                        DenseTensor(PTO_I64, 2, receives_[r])});
    }
  }
  std::string Refused() { return RunPhases(Builtin("all_to_all_v"), ranks_, {}).refused; }
  // Runs the kernel with counts that change after the plan has accepted them. Returns the error
  // text.
  std::string Change(int64_t* count, int64_t to) {
    const int64_t before = *count;
    const PhaseResult result =
        RunPhases(Builtin("all_to_all_v"), ranks_, {}, 1, [&] { *count = to; });
    *count = before;
    EXPECT_EQ(result.refused, "");
    EXPECT_EQ(result.code != 0, !result.error.empty());
    return result.error;
  }
  bool GuardsUntouched() const {
    for (const auto& memory : memory_) {
      for (size_t i = 0; i < 8; ++i) {
        if (memory[i] != kGuarded || memory[16 + i] != kGuarded) return false;
      }
    }
    return true;
  }

  static constexpr int64_t kGuarded = 0x5a5a5a5a5a5a5a5a;
  int64_t in_[2][8];
  int64_t sends_[2][2] = {{1, 2}, {4, 3}};
  int64_t receives_[2][2] = {{1, 4}, {2, 3}};
  int64_t memory_[2][24];  // out, with guards on both sides
  std::vector<RankTensors> ranks_;
};

TEST_F(AllToAllVTest, CountsThatDoNotAgree) {
  EXPECT_EQ(Refused(), "");
  receives_[1][0] = 3;
  EXPECT_EQ(Refused(), "all_to_all_v: rank 0 sends 2 elements to rank 1, which expects 3");
  sends_[0][1] = 8;
  EXPECT_EQ(Refused(), "all_to_all_v: rank 0 sends 8 elements to rank 1 after 1, and has 8");
  sends_[0][1] = -1;
  EXPECT_EQ(Refused(), "all_to_all_v: rank 0 sends -1 elements to rank 1 after 1, and has 8");
  sends_[0][1] = receives_[1][0] = 6;
  EXPECT_EQ(Refused(),
            "all_to_all_v: rank 1 expects 3 elements from rank 1 after 6, and has room for 8");
  ranks_[0][1].shape[0] = 1;
  EXPECT_EQ(Refused(), "all_to_all_v: rank 0 has 1 elements in send_counts, and there are 2 ranks");
}

TEST_F(AllToAllVTest, AnOutputThatIsAlsoCountsIsRefused) {
  ranks_[1][3].data = memory_[1] + 15;  // its first element is the last one of out
  memory_[1][15] = 2;
  memory_[1][16] = 3;
  EXPECT_EQ(Refused(), "all_to_all_v: rank 1: out and recv_counts overlap");
  ranks_[1][3].data = memory_[1] + 16;
  memory_[1][17] = 3;
  memory_[1][16] = 2;
  EXPECT_EQ(Refused(), "");
  ranks_[0][1].data = memory_[0] + 7;  // its last element is the first one of out
  EXPECT_EQ(Refused(), "all_to_all_v: rank 0: out and send_counts overlap");
  ranks_[0][1].data = memory_[0] + 6;
  memory_[0][6] = 1;
  memory_[0][7] = 2;
  EXPECT_EQ(Refused(), "");
}

TEST_F(AllToAllVTest, CountsThatChangeMeanwhileFailTheCall) {
  for (const bool in_place : {false, true}) {
    SCOPED_TRACE(in_place);
    if (in_place) {
      for (size_t r = 0; r < 2; ++r) ranks_[r][0].data = ranks_[r][2].data;
    }
    EXPECT_EQ(Change(&receives_[1][0], 2), "") << "not a change";
    const int64_t huge = int64_t{1} << 62;
    EXPECT_EQ(Change(&receives_[1][0], huge),
              absl::StrCat("all_to_all_v: rank 1 expects ", huge,
                           " elements from rank 0 after 0 with room for 8, and rank 0 has 2 left "
                           "to send: the counts have changed"));
    EXPECT_NE(Change(&receives_[1][0], 3), "") << "more than rank 0 sends";
    EXPECT_NE(Change(&receives_[0][1], -1), "");
    EXPECT_NE(Change(&receives_[0][0], INT64_MIN), "");
    EXPECT_EQ(Change(&receives_[1][1], 0),
              "all_to_all_v: the ranks send 10 elements and expect 7: the counts have changed");
    EXPECT_EQ(Change(&sends_[1][0], huge),
              absl::StrCat("all_to_all_v: rank 1 sends ", huge,
                           " elements to rank 0 after 0, and has 8: the counts have changed"));
    EXPECT_NE(Change(&sends_[1][1], -huge), "");
    EXPECT_NE(Change(&sends_[0][0], 0), "") << "less than rank 0 expects";
    EXPECT_TRUE(GuardsUntouched());
  }
}

// In place, the kernel needs a workspace, which is not cleared and may contain data of others.
TEST_F(AllToAllVTest, CountsThatGrowBetweenPhasesShowNothingOfTheWorkspace) {
  for (size_t r = 0; r < 2; ++r) ranks_[r][0].data = ranks_[r][2].data;
  for (size_t r = 0; r < 2; ++r) std::fill_n(memory_[r] + 8, 8, int64_t{7});
  std::fill_n(&sends_[0][0], 4, 0);
  std::fill_n(&receives_[0][0], 4, 0);
  const PhaseResult result = RunPhases(
      Builtin("all_to_all_v"), ranks_, {}, 1, [] {},
      [&](uint32_t phase) {
        if (phase != 1) return;
        std::fill_n(&sends_[0][0], 4, 4);
        std::fill_n(&receives_[0][0], 4, 4);
      });
  EXPECT_EQ(result.refused, "");
  EXPECT_EQ(result.plan.phases, 2u);
  EXPECT_EQ(result.code, 0) << result.error;
  for (size_t r = 0; r < 2; ++r) {
    for (size_t i = 0; i < 8; ++i) EXPECT_EQ(memory_[r][8 + i], 7) << r << " " << i;
  }
  EXPECT_TRUE(GuardsUntouched());
}

}  // namespace
}  // namespace pto::kernels::collectives
