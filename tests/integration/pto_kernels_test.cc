// Kernels of the PTO ABI in a real daemon: objects of both compilers, written from the description
// of the ABI alone (tests/kernels), uploaded unchanged.

#include <bit>
#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "client/client.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/error.h"
#include "runtime/base/status_matchers.h"
#include "tests/harness/daemon_process.h"
#include "tests/integration/own_kernels.h"

namespace pto::testing {
namespace {

using ::testing::HasSubstr;

class PtoKernelsTest : public ::testing::TestWithParam<const char*> {
 protected:
  explicit PtoKernelsTest(std::vector<std::string> flags = {"--sim-chips=2"})
      : daemon_(std::move(flags)), session_(*client_.CreateSession()) {}

  absl::Status TryAdd(const std::string& object, const std::string& id,
                      const std::string& signature) {
    KernelOptions options;
    options.id = id;
    options.signature = signature;
    return session_.RegisterKernel(Object(absl::StrCat(object, "_", GetParam())), options).status();
  }
  void Add(const std::string& object, const std::string& id, const std::string& signature) {
    ASSERT_EQ(TryAdd(object, id, signature), absl::OkStatus());
  }
  template <typename T>
  Tensor<T> Make(uint32_t chip, const std::vector<T>& values) {
    Tensor<T> tensor = *session_.CreateTensor<T>(chip, {static_cast<int64_t>(values.size())});
    EXPECT_EQ(tensor.Write(values), absl::OkStatus());
    return tensor;
  }
  absl::Status RunGraph(const GraphBuilder& graph, absl::Duration timeout = absl::Seconds(60)) {
    RunOptions options;
    options.timeout = timeout;
    return RunToEnd(session_, graph, options);
  }

  DaemonProcess daemon_;
  Client client_ = ConnectTo(daemon_);
  Session session_;
};

INSTANTIATE_TEST_SUITE_P(Compilers, PtoKernelsTest, ::testing::Values("gcc", "clang"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(PtoKernelsTest, AnObjectWithoutASignatureIsRefusedWithAHint) {
  const absl::Status refused = TryAdd("pto_scale", "scale", "");
  EXPECT_THAT(refused, HasReason(reason::kKernelInvalid));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("needs a signature"));
  EXPECT_THAT(TryAdd("pto_scale", "scale", "in f32[], out what"),
              HasReason(reason::kKernelInvalid));
  EXPECT_THAT(TryAdd("pto_scale", "", "in f32[]"), HasReason(reason::kFieldInvalid));
}

TEST_P(PtoKernelsTest, TheKernelIsDescribedAsItsSignatureSays) {
  Add("pto_allreduce", "allreduce", "in f32[] x, out f32[] y, domain d");
  const v1::Kernel kernel = *client_.GetKernel(session_.name() + "/kernels/allreduce");
  EXPECT_EQ(kernel.abi(), v1::Kernel::PTO);
  EXPECT_TRUE(kernel.blocks()) << "from its imports";
  ASSERT_EQ(kernel.arguments_size(), 2);
  EXPECT_EQ(kernel.arguments(1).name(), "y");
  ASSERT_EQ(kernel.scalars_size(), 1);
  EXPECT_EQ(kernel.scalars(0).type(), v1::Kernel::ScalarParameter::DOMAIN);
}

TEST_P(PtoKernelsTest, AddsViewsInTheMiddleOfTheirBuffers) {
  Add("pto_vector_add", "vadd", "in f32[] x, in f32[] y, out f32[] z");
  std::vector<float> values(200);
  for (int i = 0; i < 200; ++i) values[static_cast<size_t>(i)] = static_cast<float>(i);
  Tensor<float> x = Make(1, values), z = Make(1, std::vector<float>(200, -1));
  GraphBuilder graph;
  // A dense view, one with padded rows, and a transposed one.
  graph.Task("vadd", 1,
             {graph.Tensor("x", x.buffer(), v1::F32, {4, 6}, {}, 10),
              graph.Tensor("y", x.buffer(), v1::F32, {4, 6}, {9, 1}, 20),
              graph.Tensor("z", z.buffer(), v1::F32, {4, 6}, {1, 5}, 30)});
  ASSERT_EQ(RunGraph(graph), absl::OkStatus());
  const std::vector<float> sum = *z.Read();
  int written = 0;
  for (size_t row = 0; row < 4; ++row) {
    for (size_t column = 0; column < 6; ++column) {
      EXPECT_EQ(sum[30 + row + 5 * column],
                static_cast<float>(10 + 6 * row + column + 20 + 9 * row + column));
    }
  }
  for (const float value : sum) written += value != -1;
  EXPECT_EQ(written, 24) << "nothing outside of the view";
}

TEST_P(PtoKernelsTest, ScalarsAndBlocks) {
  Add("pto_scale", "pto_scale", "in f32[] x, out f32[] y, scalar f32 factor, scalar i32 shift");
  Add("pto_spmd", "spmd", "out i32[] out");
  Tensor<float> x = Make<float>(0, {1, 2, 3}), y = Make<float>(0, {0, 0, 0});
  Tensor<int32_t> out = Make(0, std::vector<int32_t>(16 * 48, -1));
  GraphBuilder graph;
  graph.Task("pto_scale", 0, {graph.Tensor(x), graph.Tensor(y)}).Scalar(0.25).Scalar(-3);
  graph.Task("spmd", 0, {graph.Tensor(out)}).Blocks(48);
  ASSERT_EQ(RunGraph(graph), absl::OkStatus());
  EXPECT_THAT(*y.Read(), ::testing::ElementsAre(-2.75f, -2.5f, -2.25f));
  const std::vector<int32_t> lines = *out.Read();
  for (int block = 0; block < 48; ++block) {
    const size_t line = static_cast<size_t>(16 * block);
    EXPECT_EQ(lines[line], block);
    EXPECT_EQ(lines[line + 1], 48);
    EXPECT_EQ(lines[line + 2], -1);
  }
}

TEST_P(PtoKernelsTest, NarrowFloatsAreOpaqueBytes) {
  Add("pto_describe", "describe", "in fp8e4m3fn[] x, out u64[] out, scalar i64 a, scalar u32 b");
  Tensor<uint8_t> x = Make(0, std::vector<uint8_t>(100));
  Tensor<uint64_t> out = Make(0, std::vector<uint64_t>(32));
  GraphBuilder graph;
  graph.Task("describe", 0, {graph.Tensor("x", x.buffer(), v1::U8, {10}, {}, 7), graph.Tensor(out)})
      .Scalar(-1)
      .Scalar(5);
  ASSERT_EQ(RunGraph(graph), absl::OkStatus());
  const std::vector<uint64_t> seen = *out.Read();
  EXPECT_EQ(seen[1], 100u) << "the bytes of the buffer";
  EXPECT_EQ(seen[3], 7u) << "where the view starts in it";
  EXPECT_EQ(seen[4], 1u);
  EXPECT_EQ(seen[5], 12u) << "fp8e4m3fn";
  EXPECT_EQ(seen[8], 10u);
  EXPECT_EQ(seen[19], ~uint64_t{0});
  EXPECT_EQ(seen[20], 5u);
}

TEST_P(PtoKernelsTest, ErrorCodes) {
  Add("pto_conditions", "conditions",
      "hidden inout u32[] word, scalar i64 count, scalar i64 type, address(0) at, "
      "scalar i64 expected, scalar i64 code");
  Tensor<uint32_t> word = Make<uint32_t>(0, {5});
  const auto run = [&](int64_t count, int64_t type, int64_t expected, int64_t code) {
    GraphBuilder graph;
    graph.Task("conditions", 0, {graph.Tensor(word)})
        .Scalar(count)
        .Scalar(type)
        .Scalar(expected)
        .Scalar(code);
    return RunGraph(graph);
  };
  EXPECT_EQ(run(1, 0, 5, 0), absl::OkStatus());
  const absl::Status invalid = run(0, 0, 0, 101);
  EXPECT_THAT(invalid, HasReason(reason::kKernelFailed));
  EXPECT_THAT(std::string(invalid.message()), HasSubstr("(code 101)"));
  EXPECT_THAT(std::string(run(1, 2, 0, 0).message()), HasSubstr("(code 101)"));
  EXPECT_THAT(std::string(run(65, 0, 0, 0).message()), HasSubstr("(code 102)"));
  EXPECT_THAT(std::string(run(0, 0, 0, 7).message()), HasSubstr("(code 7)"));
}

// ---- domains

constexpr int64_t kSize = 33;

// The windows that pto_allreduce and pto_async_notify want: their signals begin at zero.
class Ring {
 public:
  Ring(Session& session, uint32_t ranks, const std::string& id = "d") : ranks_(ranks) {
    DomainSpec spec;
    spec.id = id;
    for (uint32_t rank = 0; rank < ranks; ++rank) spec.chips.push_back(rank);
    const uint64_t words = static_cast<uint64_t>(kSize + 1) * ranks;
    spec.buffers = {{.name = "w", .dtype = v1::U32, .count = words, .zero_before_run = true}};
    domain_ = *session.CreateDomain(spec);
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      x_.push_back(*session.CreateTensor<float>(rank, {kSize}));
      y_.push_back(*session.CreateTensor<float>(rank, {kSize}));
    }
  }

  void Write(int seed) {
    for (uint32_t rank = 0; rank < ranks_; ++rank) {
      std::vector<float> values;
      for (int64_t i = 0; i < kSize; ++i) {
        values.push_back(static_cast<float>(seed + i * (rank + 1)));
      }
      EXPECT_EQ(x_[rank].Write(values), absl::OkStatus());
    }
  }
  // The ranks of [first, end), each as a task of its own.
  void AddTasks(GraphBuilder& graph, uint32_t first, uint32_t end, const std::string& more = "") {
    for (uint32_t rank = first; rank < end; ++rank) {
      graph
          .Task("allreduce", rank,
                {graph.Tensor(absl::StrCat("x", rank, more), x_[rank].buffer(), v1::F32, {kSize}),
                 graph.Tensor(absl::StrCat("y", rank, more), y_[rank].buffer(), v1::F32, {kSize})})
          .Name(absl::StrCat("rank-", rank, more))
          .Domain("d");
    }
  }
  void Check(int seed) {
    for (uint32_t rank = 0; rank < ranks_; ++rank) {
      const std::vector<float> sums = *y_[rank].Read();
      for (int64_t i = 0; i < kSize; ++i) {
        const auto factor = static_cast<int64_t>(ranks_ * (ranks_ + 1) / 2);
        ASSERT_EQ(sums[static_cast<size_t>(i)],
                  static_cast<float>(seed * static_cast<int64_t>(ranks_) + i * factor))
            << "rank " << rank << " of " << ranks_;
      }
    }
  }
  Domain& domain() { return *domain_; }

 private:
  const uint32_t ranks_;
  absl::optional<Domain> domain_;
  std::vector<Tensor<float>> x_, y_;
};

constexpr char kAllReduce[] = "in f32[] x, out f32[] y, domain d";

class PtoDomainTest : public PtoKernelsTest {
 protected:
  explicit PtoDomainTest(std::vector<std::string> flags = {"--sim-chips=16"})
      : PtoKernelsTest(std::move(flags)) {}

  void AllReduceOnAllRanks() {
    Add("pto_allreduce", "allreduce", kAllReduce);
    for (const uint32_t ranks : {2u, 3u, 8u, 16u}) {
      Ring ring(session_, ranks);
      ring.Write(7);
      GraphBuilder graph;
      ring.AddTasks(graph, 0, ranks);
      ASSERT_EQ(RunGraph(graph), absl::OkStatus());
      ring.Check(7);
      ASSERT_EQ(ring.domain().Delete(), absl::OkStatus());
    }
  }
};

INSTANTIATE_TEST_SUITE_P(Compilers, PtoDomainTest, ::testing::Values("gcc", "clang"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(PtoDomainTest, AllReduceOnTwoToSixteenRanks) { AllReduceOnAllRanks(); }

class PtoOneExecutorTest : public PtoDomainTest {
 protected:
  PtoOneExecutorTest() : PtoDomainTest({"--sim-chips=16", "--executor-threads=1"}) {}
};

INSTANTIATE_TEST_SUITE_P(Compilers, PtoOneExecutorTest, ::testing::Values("gcc"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(PtoOneExecutorTest, AllReduceOnTwoToSixteenRanks) { AllReduceOnAllRanks(); }

TEST_P(PtoDomainTest, OneGraphInOneDomainAHundredTimes) {
  Add("pto_allreduce", "allreduce", kAllReduce);
  Ring ring(session_, 4);
  GraphBuilder graph;
  ring.AddTasks(graph, 0, 4);
  ASSERT_EQ(session_.Register("g", graph).status(), absl::OkStatus());
  for (int round = 0; round < 100; ++round) {
    ring.Write(round);
    ASSERT_EQ(StatusOf(*session_.Launch("g")->Wait()), absl::OkStatus()) << round;
    ring.Check(round);
  }
}

TEST_P(PtoDomainTest, AGraphFindsTheDomainThatHasTheName) {
  Add("pto_allreduce", "allreduce", kAllReduce);
  absl::optional<Ring> ring(absl::in_place, session_, 2);
  ring->Write(1);
  GraphBuilder graph;
  ring->AddTasks(graph, 0, 2);
  ASSERT_EQ(session_.Register("g", graph).status(), absl::OkStatus());
  ASSERT_EQ(StatusOf(*session_.Launch("g")->Wait()), absl::OkStatus());
  ASSERT_EQ(ring->domain().Delete(), absl::OkStatus());
  EXPECT_THAT(session_.Launch("g").status(), HasReason(reason::kDomainUnknown));
  Ring again(session_, 2);
  ASSERT_EQ(StatusOf(*session_.Launch("g")->Wait()), absl::OkStatus());
  ring->Check(1);
}

TEST_P(PtoDomainTest, PackedGraphsAndOpenRunsNameDomainsToo) {
  Add("pto_allreduce", "allreduce", kAllReduce);
  Ring ring(session_, 3);
  ring.Write(4);
  GraphBuilder graph;
  ring.AddTasks(graph, 0, 3);
  pto::Run packed = *session_.SubmitPacked(graph);
  ASSERT_EQ(StatusOf(*packed.Wait()), absl::OkStatus());
  ring.Check(4);
  OpenRun open = *session_.BeginOpenRun();
  for (int segment = 0; segment < 3; ++segment) {
    ring.AddTasks(open.graph(), 0, 3, absl::StrCat("-", segment));
    ASSERT_EQ(open.Flush(), absl::OkStatus());
  }
  ASSERT_EQ(StatusOf(*open.Finish()), absl::OkStatus());
  ring.Check(4);
}

TEST_P(PtoDomainTest, ARankThatIsNeverSubmittedIsNamedAtTheDeadline) {
  Add("pto_allreduce", "allreduce", kAllReduce);
  Ring ring(session_, 3);
  ring.Write(4);
  GraphBuilder graph;
  ring.AddTasks(graph, 0, 2);
  const absl::Status late = RunGraph(graph, absl::Seconds(1));
  EXPECT_THAT(late, HasReason(reason::kRunDeadline));
  const std::string message(late.message());
  EXPECT_THAT(message, HasSubstr("no task of the run is for rank 2 of domains/d, chips/2"));
  EXPECT_THAT(message, HasSubstr("'rank-"));
  EXPECT_THAT(message, HasSubstr("block 0 of 1"));
  EXPECT_THAT(message, HasSubstr(" is rank "));
  // The domain is revoked; the host comes back, and another domain works.
  GraphBuilder all;
  ring.AddTasks(all, 0, 3);
  EXPECT_THAT(RunGraph(all), HasReason(reason::kDomainRevoked));
  ASSERT_EQ(ring.domain().Delete(), absl::OkStatus());
  Ring again(session_, 3);
  again.Write(5);
  GraphBuilder good;
  again.AddTasks(good, 0, 3);
  ASSERT_EQ(RunGraph(good), absl::OkStatus());
  again.Check(5);
}

TEST_P(PtoDomainTest, ATaskOnAChipWithoutARankIsRefused) {
  Add("pto_allreduce", "allreduce", kAllReduce);
  Ring ring(session_, 2);
  Tensor<float> x = Make(5, std::vector<float>(kSize)), y = Make(5, std::vector<float>(kSize));
  GraphBuilder graph;
  graph.Task("allreduce", 5, {graph.Tensor(x), graph.Tensor(y)}).Domain("d");
  const absl::Status refused = RunGraph(graph);
  EXPECT_THAT(refused, HasReason(reason::kScalarInvalid));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("chips/5"));
}

TEST_P(PtoDomainTest, RawAddressesWithDeferredCompletion) {
  Add("pto_async_notify", "async", "out i32[] done, hidden nodep u32[] word, domain d, address(1)");
  constexpr uint32_t kRanks = 4;
  Ring ring(session_, kRanks);
  for (int round = 0; round < 20; ++round) {
    GraphBuilder graph;
    std::vector<Tensor<int32_t>> done;
    for (uint32_t rank = 0; rank < kRanks; ++rank) {
      done.push_back(Make<int32_t>(rank, {0}));
      const Buffer window = *ring.domain().Window(rank, "w");
      graph
          .Task("async", rank,
                {graph.Tensor(absl::StrCat("done", rank), done[rank].buffer(), v1::I32, {1}),
                 graph.Tensor(absl::StrCat("w", rank), window, v1::U32, {1}, {}, 3)})
          .Domain("d");
    }
    ASSERT_EQ(RunGraph(graph), absl::OkStatus()) << round;
    for (Tensor<int32_t>& tensor : done) EXPECT_THAT(*tensor.Read(), ::testing::ElementsAre(1));
    // Every rank has been told by all others before its task ended.
    for (uint32_t rank = 0; rank < kRanks; ++rank) {
      std::vector<uint32_t> word(1);
      Buffer window = *ring.domain().Window(rank, "w");
      ASSERT_EQ(window.Read(std::as_writable_bytes(std::span(word)), 12), absl::OkStatus());
      EXPECT_EQ(word[0], kRanks - 1);
    }
  }
}

TEST_P(PtoDomainTest, ADeferredConditionThatNobodySatisfiesEndsAtTheDeadline) {
  Add("pto_async_notify", "async", "out i32[] done, hidden nodep u32[] word, domain d, address(1)");
  Ring ring(session_, 2);
  Tensor<int32_t> done = Make<int32_t>(0, {0});
  GraphBuilder graph;
  graph
      .Task("async", 0,
            {graph.Tensor(done), graph.Tensor("w", *ring.domain().Window(0, "w"), v1::U32, {1})})
      .Domain("d");
  const absl::Status late = RunGraph(graph, absl::Milliseconds(500));
  EXPECT_THAT(late, HasReason(reason::kRunDeadline));
  EXPECT_THAT(std::string(late.message()), HasSubstr("no task of the run is for rank 1"));
}

// ---- clusters

TEST_P(PtoKernelsTest, ThreeLanesOnTwentyFourClustersOfTwoChipsAtOnce) {
  Add("pto_mix_cube", "cube", "in i32[] x, out i32[] y; core mix");
  Add("pto_mix_vector", "vector", "in i32[] x, out i32[] y; core mix");
  constexpr int kLength = 21;
  constexpr uint32_t kTasks = 48;
  // Two runs: the second one finds nothing that the first one left.
  for (int round = 0; round < 2; ++round) {
    std::vector<Tensor<int32_t>> x, y;
    GraphBuilder graph;
    for (uint32_t i = 0; i < kTasks; ++i) {
      const uint32_t chip = i % 2;
      std::vector<int32_t> values;
      for (int k = 0; k < kLength; ++k) values.push_back(round + static_cast<int>(i) + k);
      x.push_back(Make(chip, values));
      y.push_back(Make(chip, std::vector<int32_t>(kLength, -1)));
      graph
          .Task("cube", chip,
                {graph.Tensor(absl::StrCat("x", i), x[i].buffer(), v1::I32, {kLength}),
                 graph.Tensor(absl::StrCat("y", i), y[i].buffer(), v1::I32, {kLength})})
          .VectorKernels({"vector", "vector"});
    }
    ASSERT_EQ(RunGraph(graph), absl::OkStatus());
    for (uint32_t i = 0; i < kTasks; ++i) {
      const std::vector<int32_t> values = *y[i].Read();
      for (int k = 0; k < kLength; ++k) {
        const int32_t value = round + static_cast<int>(i) + k;
        ASSERT_EQ(values[static_cast<size_t>(k)], value * value + 1) << i;
      }
    }
  }
}

// ---- words that kernels change directly

TEST_P(PtoDomainTest, ABuiltInWaitSeesWhatAKernelStores) {
  Add("pto_async_notify", "async", "out i32[] done, hidden nodep u32[] word, domain d, address(1)");
  Ring ring(session_, 2);
  Tensor<int32_t> done = Make<int32_t>(0, {0});
  GraphBuilder graph;
  const Buffer window = *ring.domain().Window(1, "w");
  // Rank 0 notifies rank 1, where a `wait` task waits for the same word; it completes itself when
  // rank 1 has answered, which a task behind the wait does.
  graph
      .Task("async", 0,
            {graph.Tensor(done), graph.Tensor("w0", *ring.domain().Window(0, "w"), v1::U32, {1})})
      .Domain("d");
  const TaskRef waits = graph.WaitFor(graph.Tensor("w1", window, v1::I32, {1}), v1::GE, 1);
  Tensor<int32_t> other = Make<int32_t>(1, {0});
  graph
      .Task("async", 1,
            {graph.Tensor("other", other.buffer(), v1::I32, {1}),
             graph.Tensor("w2", window, v1::U32, {1})})
      .After(waits)
      .Domain("d");
  EXPECT_EQ(RunGraph(graph), absl::OkStatus());
}

}  // namespace
}  // namespace pto::testing
