// Kernels of the PTO ABI, built as users build them, on threads that stand for the cores. Their
// sources, in tests/kernels, are written from the description of the ABI alone.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/base/sanitized.h"
#include "runtime/host/object/pto_hooks.h"
#include "runtime/host/object/testing/object_testing.h"

namespace pto::host {
namespace {

using ::pto::host::testing::CallResult;
using ::pto::host::testing::ObjectTask;
using ::testing::SizeIs;

// Every test runs with the objects of both compilers.
class PtoConformanceTest : public ::testing::TestWithParam<const char*> {
 protected:
  PtoConformanceTest() { SetPtoEnvironment(); }

  std::unique_ptr<LoadedKernel> Load(const std::string& name, const std::string& signature) {
    return testing::LoadPto(absl::StrCat(name, "_", GetParam()), signature);
  }
};

INSTANTIATE_TEST_SUITE_P(Compilers, PtoConformanceTest, ::testing::Values("gcc", "clang"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(PtoConformanceTest, VectorAddAtAnOffset) {
  const auto kernel = Load("pto_vector_add", "in f32[], in f32[], out f32[]");
  std::vector<float> x(200), y(200), z(200, -1);
  for (int i = 0; i < 200; ++i) {
    x[i] = static_cast<float>(i);
    y[i] = static_cast<float>(1000 * i);
  }
  // A dense view, one with padded rows, and a transposed one; each in the middle of its buffer.
  ObjectTask task;
  task.Tensor(&x[10], PTO_F32, {4, 6})
      .Tensor(&y[20], PTO_F32, {4, 6}, {9, 1})
      .Tensor(&z[30], PTO_F32, {4, 6}, {1, 5});
  const PtoBuffer buffers[] = {{x.data(), 800}, {y.data(), 800}, {z.data(), 800}};
  for (const bool in_buffers : {false, true}) {
    std::fill(z.begin(), z.end(), -1.f);
    PtoCallInfo info;
    if (in_buffers) info.buffers = buffers;
    const CallResult result = task.Call(*kernel, 0, 1, info);
    EXPECT_EQ(result.code, 0) << result.error;
    int written = 0;
    for (int row = 0; row < 4; ++row) {
      for (int column = 0; column < 6; ++column) {
        EXPECT_EQ(z[30 + row + 5 * column], x[10 + 6 * row + column] + y[20 + 9 * row + column]);
      }
    }
    for (const float value : z) written += value != -1;
    EXPECT_EQ(written, 24) << "nothing outside of the view";
  }
}

TEST_P(PtoConformanceTest, ScalarF32) {
  const auto kernel = Load("pto_scale", "in f32[], out f32[], scalar f32, scalar i32");
  float x[5] = {1, 2, 3, 4, 5}, y[5] = {};
  ObjectTask task;
  task.Tensor(x, PTO_F32, {5}).Tensor(y, PTO_F32, {5}).Float(0.25).Integer(-3);
  const CallResult result = task.Call(*kernel);
  EXPECT_EQ(result.code, 0) << result.error;
  for (int i = 0; i < 5; ++i) EXPECT_EQ(y[i], x[i] * 0.25f - 3);
}

TEST_P(PtoConformanceTest, SpmdBlocks) {
  const auto kernel = Load("pto_spmd", "out i32[]");
  constexpr uint32_t kBlocks = 48;
  std::vector<int32_t> out(16 * kBlocks, -1);
  ObjectTask task;
  task.Tensor(out.data(), PTO_I32, {16 * kBlocks});
  std::vector<std::thread> cores;
  for (uint32_t core = 0; core < 4; ++core) {
    cores.emplace_back([&, core] {
      for (uint32_t block = core; block < kBlocks; block += 4) {
        EXPECT_EQ(task.Call(*kernel, block, kBlocks).code, 0);
      }
    });
  }
  for (std::thread& core : cores) core.join();
  for (uint32_t block = 0; block < kBlocks; ++block) {
    EXPECT_EQ(out[16 * block], static_cast<int32_t>(block));
    EXPECT_EQ(out[16 * block + 1], static_cast<int32_t>(kBlocks));
    EXPECT_EQ(out[16 * block + 2], -1);
  }
}

TEST_P(PtoConformanceTest, MixOfThreeLanesOnManyClusters) {
  const auto cube = Load("pto_mix_cube", "in i32[], out i32[]; core mix");
  const auto vector = Load("pto_mix_vector", "in i32[], out i32[]; core mix");
  EXPECT_EQ(cube->info().flags, static_cast<uint32_t>(PTO_KERNEL_BLOCKS));
  constexpr uint32_t kChips = 2;
  constexpr uint32_t kClusters = 24;
  constexpr int kSize = 21;
  // Two runs: the second one finds nothing that the first one left.
  for (const uint64_t run : {uint64_t{1}, uint64_t{2}}) {
    std::vector<std::vector<int32_t>> x(kChips * kClusters), y(kChips * kClusters);
    std::vector<ObjectTask> tasks;
    for (uint32_t i = 0; i < kChips * kClusters; ++i) {
      for (int k = 0; k < kSize; ++k) x[i].push_back(static_cast<int32_t>(i) + k);
      y[i].resize(kSize);
      ObjectTask task;
      task.Tensor(x[i].data(), PTO_I32, {kSize}).Tensor(y[i].data(), PTO_I32, {kSize});
      task.context().chip = i / kClusters;
      task.context().core = i % kClusters;
      task.context().core_kind = PTO_MIX;
      tasks.push_back(task);
    }
    std::vector<std::thread> cores;
    for (const ObjectTask& task : tasks) {
      for (const uint32_t lane : {0u, 1u, 2u}) {
        ObjectTask on_lane = task;
        on_lane.context().lane = lane;
        cores.emplace_back([&, on_lane, lane, run] {
          PtoCallInfo info;
          info.run = run;
          const CallResult result = on_lane.Call(lane == 0 ? *cube : *vector, 0, 1, info);
          EXPECT_EQ(result.code, 0) << result.error;
        });
      }
    }
    for (std::thread& core : cores) core.join();
    for (uint32_t i = 0; i < kChips * kClusters; ++i) {
      for (int k = 0; k < kSize; ++k) {
        const int32_t value = static_cast<int32_t>(i) + k;
        ASSERT_EQ(y[i][k], value * value + 1) << "cluster " << i;
      }
    }
    EXPECT_GT(PtoPipeBytes(), 0u);
    EndPtoRun(run);
    EXPECT_EQ(PtoPipeBytes(), 0u);
  }
}

// A domain: memory of several ranks, with a task on each.
class Domain {
 public:
  Domain(uint32_t ranks, int64_t words) : words_(words), windows_(ranks) {
    std::vector<uint64_t> addresses;
    for (std::vector<uint32_t>& window : windows_) {
      window.resize(static_cast<size_t>(words));
      addresses.push_back(reinterpret_cast<uintptr_t>(window.data()));
    }
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      contexts_.push_back(*MakePtoCommContext(rank, addresses, static_cast<uint64_t>(words) * 4));
    }
  }

  uint32_t* window(uint32_t rank) { return windows_[rank].data(); }
  const PtoCommContext& context(uint32_t rank) const { return contexts_[rank]; }
  // Before each run, because kernels expect their signals to start at 0.
  void Zero() {
    for (std::vector<uint32_t>& window : windows_) window.assign(static_cast<size_t>(words_), 0);
  }

 private:
  const int64_t words_;
  std::vector<std::vector<uint32_t>> windows_;
  std::vector<PtoCommContext> contexts_;
};

// Runs an allreduce with a thread for each rank, and checks the sums.
void AllReduce(const LoadedKernel& kernel, Domain& domain, uint32_t ranks, int seed) {
  constexpr int kSize = 33;
  std::vector<std::vector<float>> x(ranks), y(ranks);
  std::vector<std::thread> cores;
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    for (int i = 0; i < kSize; ++i) {
      x[rank].push_back(static_cast<float>(seed + i * static_cast<int>(rank + 1)));
    }
    y[rank].resize(kSize);
    cores.emplace_back([&, rank] {
      ObjectTask task;
      task.Tensor(x[rank].data(), PTO_F32, {kSize})
          .Tensor(y[rank].data(), PTO_F32, {kSize})
          .Integer(0);
      PtoCallInfo info;
      info.domains = absl::MakeConstSpan(&domain.context(rank), 1);
      const CallResult result = task.Call(kernel, 0, 1, info);
      EXPECT_EQ(result.code, 0) << result.error;
    });
  }
  for (std::thread& core : cores) core.join();
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    for (int i = 0; i < kSize; ++i) {
      float sum = 0;
      for (uint32_t other = 0; other < ranks; ++other) sum += x[other][i];
      ASSERT_EQ(y[rank][i], sum) << "rank " << rank << " of " << ranks;
    }
  }
}

TEST_P(PtoConformanceTest, AllReduceOnTwoToSixteenRanks) {
  const auto kernel = Load("pto_allreduce", "in f32[], out f32[], domain");
  for (uint32_t ranks = 2; ranks <= 16; ++ranks) {
    Domain domain(ranks, 34 * ranks);
    AllReduce(*kernel, domain, ranks, 7);
  }
}

TEST_P(PtoConformanceTest, AllReduceInOneDomainAHundredTimes) {
  const auto kernel = Load("pto_allreduce", "in f32[], out f32[], domain");
  Domain domain(4, 34 * 4);
  const int runs = kSanitized ? 20 : 100;
  for (int run = 0; run < runs; ++run) {
    domain.Zero();
    AllReduce(*kernel, domain, 4, run);
  }
}

TEST_P(PtoConformanceTest, AllReduceOfAGang) {
  // The windows are a tensor of each member: nobody names a domain.
  const auto kernel = Load("pto_allreduce", "in f32[], out f32[], hidden nodep u32[], domain(2)");
  constexpr uint32_t kRanks = 3;
  constexpr int kSize = 5;
  Domain domain(kRanks, (kSize + 1) * kRanks);
  float x[kRanks][kSize], y[kRanks][kSize] = {};
  std::vector<pto_tensor> tensors;
  std::vector<const pto_tensor*> members;
  for (uint32_t rank = 0; rank < kRanks; ++rank) {
    for (int i = 0; i < kSize; ++i) x[rank][i] = static_cast<float>(rank * 10 + i);
    for (float* const data : {x[rank], y[rank]}) {
      tensors.push_back({data, PTO_F32, 1, {kSize}, {1}});
    }
    tensors.push_back({domain.window(rank), PTO_U32, 1, {(kSize + 1) * kRanks}, {1}});
  }
  for (uint32_t rank = 0; rank < kRanks; ++rank) members.push_back(&tensors[3 * rank]);
  std::vector<std::thread> cores;
  for (uint32_t rank = 0; rank < kRanks; ++rank) {
    cores.emplace_back([&, rank] {
      ObjectTask task;
      task.context().members = members.data();
      task.context().member_count = kRanks;
      task.context().member_index = rank;
      task.Tensor(x[rank], PTO_F32, {kSize})
          .Tensor(y[rank], PTO_F32, {kSize})
          .Tensor(domain.window(rank), PTO_U32, {(kSize + 1) * kRanks});
      const CallResult result = task.Call(*kernel);
      EXPECT_EQ(result.code, 0) << result.error;
    });
  }
  for (std::thread& core : cores) core.join();
  for (uint32_t rank = 0; rank < kRanks; ++rank) {
    for (int i = 0; i < kSize; ++i) EXPECT_EQ(y[rank][i], static_cast<float>(30 + 3 * i));
  }
}

TEST_P(PtoConformanceTest, ARankWaitsUntilTheOtherOneComes) {
  const auto kernel = Load("pto_allreduce", "in f32[], out f32[], domain");
  Domain domain(2, 34 * 2);
  float x[2][33], y[2][33] = {};
  std::atomic<bool> ended{false};
  const auto call = [&](uint32_t rank) {
    for (float& value : x[rank]) value = static_cast<float>(rank + 1);
    ObjectTask task;
    task.Tensor(x[rank], PTO_F32, {33}).Tensor(y[rank], PTO_F32, {33}).Integer(0);
    PtoCallInfo info;
    info.domains = absl::MakeConstSpan(&domain.context(rank), 1);
    EXPECT_EQ(task.Call(*kernel, 0, 1, info).code, 0);
  };
  std::thread first([&] {
    call(0);
    ended = true;
  });
  // Its notification of the other rank shows that it runs.
  while (__atomic_load_n(domain.window(1) + 66, __ATOMIC_ACQUIRE) == 0) std::this_thread::yield();
  EXPECT_FALSE(ended);
  call(1);
  first.join();
  EXPECT_EQ(y[0][0], 3);
  EXPECT_EQ(y[1][32], 3);
}

TEST_P(PtoConformanceTest, RawAddressWithDeferredCompletion) {
  const auto kernel =
      Load("pto_async_notify", "out i32[], hidden nodep u32[], domain(1), address(1)");
  constexpr uint32_t kRanks = 4;
  Domain domain(kRanks, 8);
  std::vector<int32_t> done(kRanks);
  std::vector<pto_tensor> tensors;
  std::vector<const pto_tensor*> members;
  for (uint32_t rank = 0; rank < kRanks; ++rank) {
    tensors.push_back({&done[rank], PTO_I32, 1, {1}, {1}});
    tensors.push_back({domain.window(rank), PTO_U32, 1, {8}, {1}});
  }
  for (uint32_t rank = 0; rank < kRanks; ++rank) members.push_back(&tensors[2 * rank]);
  std::vector<CallResult> results(kRanks);
  // One after the other, on one thread: none of them waits.
  for (uint32_t rank = 0; rank < kRanks; ++rank) {
    ObjectTask task;
    task.context().members = members.data();
    task.context().member_count = kRanks;
    task.context().member_index = rank;
    task.Tensor(&done[rank], PTO_I32, {1}).Tensor(domain.window(rank), PTO_U32, {8});
    results[rank] = task.Call(*kernel);
    ASSERT_EQ(results[rank].code, 0) << results[rank].error;
    EXPECT_EQ(done[rank], 1);
  }
  // The last one was told by all others before. The others were still waiting when they returned.
  EXPECT_THAT(results[kRanks - 1].deferred, SizeIs(0));
  for (uint32_t rank = 0; rank + 1 < kRanks; ++rank) {
    ASSERT_THAT(results[rank].deferred, SizeIs(1)) << rank;
    const CallResult::Deferred& deferred = results[rank].deferred[0];
    EXPECT_EQ(deferred.signal.address, domain.window(rank)) << "each rank has its own address";
    const PtoCondition condition = {reinterpret_cast<uintptr_t>(deferred.signal.address), false,
                                    static_cast<uint64_t>(deferred.value)};
    EXPECT_TRUE(condition.Satisfied()) << "all ranks have run";
  }
}

}  // namespace
}  // namespace pto::host
