// The work for each task does not grow with the graph. Counts steps instead of seconds, so that
// load on the machine makes no difference.

#include <cstdint>
#include <iostream>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "runtime/base/sanitized.h"
#include "runtime/base/status_matchers.h"
#include "runtime/graph/builder.h"
#include "runtime/graph/graph_testing.h"
#include "runtime/graph/open_graph.h"
#include "runtime/graph/work_budget.h"

namespace pto::engine {
namespace {

using engine::testing::GraphTestTarget;
using ::pto::testing::IsOk;

#if defined(__OPTIMIZE__)
constexpr int64_t kScale = kSanitized ? 50 : 1;
#else
constexpr int64_t kScale = kSanitized ? 50 : 10;
#endif
constexpr int64_t kTasks = 1'000'000 / kScale;

// Pseudo-random numbers, the same in every run.
class Numbers {
 public:
  int64_t Below(int64_t limit) {
    state_ = state_ * 6364136223846793005 + 1442695040888963407;
    return static_cast<int64_t>((state_ >> 33) % static_cast<uint64_t>(limit));
  }

 private:
  uint64_t state_ = 1;
};

// A graph of tasks that write one tensor each.
class Writes {
 public:
  uint32_t Layout(std::vector<int64_t> shape, std::vector<int64_t> strides = {}) {
    return builder_.AddLayout(PTO_U8, shape, strides).value();
  }
  uint32_t Tensor(uint32_t layout, int64_t offset) { return Tensor("m", layout, offset); }
  uint32_t Tensor(const std::string& slot, uint32_t layout, int64_t offset) {
    return builder_.AddTensor(builder_.AddSlot(slot), layout, offset).value();
  }
  void Write(uint32_t tensor) {
    TaskInput task;
    task.kernel = step_;
    task.args = absl::MakeConstSpan(&tensor, 1);
    task.scalars = scalars_;
    ASSERT_THAT(builder_.AddTask(task), IsOk());
  }
  // Average work for each task. Leaves the graph unusable.
  double Work() {
    const auto tasks = static_cast<double>(builder_.task_count());
    const auto work = static_cast<double>(builder_.work());
    EXPECT_THAT(builder_.Build(), IsOk());
    return work / tasks;
  }

 private:
  GraphBuilder builder_{engine::testing::GraphTestTarget()};
  const uint32_t step_ = builder_.AddKernel("step").value();
  const std::vector<ScalarInput> scalars_ = std::vector<ScalarInput>(2);
};

template <typename Work>
void ExpectLinear(Work work, int64_t count, int64_t times = 10) {
  const double few = work(count / times), many = work(count);
  std::cout << "steps for each task: " << few << " of " << count / times << ", " << many << " of "
            << count << "\n";
  EXPECT_LT(many, 2 * few);
  // Half of the allowed work.
  EXPECT_LT(many, WorkBudget::kPerArgument / 2);
}

// Small and large tensors in one buffer, without shared bytes.
TEST(GraphScaleTest, TensorsOfTwoSizes) {
  ExpectLinear(
      [](int64_t count) {
        Writes graph;
        const uint32_t small = graph.Layout({4}), large = graph.Layout({1 << 20});
        for (int64_t i = 0; i < count / 2; ++i) {
          graph.Write(graph.Tensor(small, i * (64 + (1 << 20))));
          graph.Write(graph.Tensor(large, i * (64 + (1 << 20)) + 64));
        }
        return graph.Work();
      },
      kTasks);
}

// First small tensors all over the buffer, with room for large ones between them.
TEST(GraphScaleTest, LargeTensorsBetweenSmallOnes) {
  ExpectLinear(
      [](int64_t count) {
        Writes graph;
        const uint32_t small = graph.Layout({4}), large = graph.Layout({1 << 20});
        for (int64_t i = 0; i < count / 2; ++i) graph.Write(graph.Tensor(small, i * (2 << 20)));
        for (int64_t i = 0; i < count / 2; ++i) {
          graph.Write(graph.Tensor(large, i * (2 << 20) + 4096));
        }
        return graph.Work();
      },
      kTasks);
}

TEST(GraphScaleTest, TensorsOfAllSizes) {
  ExpectLinear(
      [](int64_t count) {
        Writes graph;
        Numbers numbers;
        std::vector<uint32_t> layouts;
        std::vector<int64_t> sizes;
        for (int i = 0; i < 300; ++i) {
          sizes.push_back(1 + numbers.Below(int64_t{1} << (1 + i % 20)));
          layouts.push_back(graph.Layout({sizes.back()}));
        }
        int64_t at = 0;
        for (int64_t i = 0; i < count; ++i) {
          const auto kind = static_cast<size_t>(numbers.Below(300));
          graph.Write(graph.Tensor(layouts[kind], at));
          at += sizes[kind] + numbers.Below(64);
        }
        return graph.Work();
      },
      kTasks);
}

// Tiles, rows and columns of matrices, and whole matrices.
TEST(GraphScaleTest, PartsOfMatrices) {
  ExpectLinear(
      [](int64_t count) {
        Writes graph;
        constexpr int64_t kSide = 256, kTile = 16;
        const uint32_t tile = graph.Layout({kTile, kTile}, {kSide, 1});
        const uint32_t column = graph.Layout({kSide, kTile}, {kSide, 1});
        const uint32_t row = graph.Layout({kTile, kSide}), all = graph.Layout({kSide, kSide});
        for (int64_t task = 0, matrix = 0; task < count; ++matrix) {
          const int64_t begin = matrix * 2 * kSide * kSide;
          for (int64_t i = 0; i < 256; ++i, ++task) {
            graph.Write(graph.Tensor(tile, begin + i / 16 * kTile * kSide + i % 16 * kTile));
          }
          for (int64_t i = 0; i < 16; ++i, ++task) {
            graph.Write(graph.Tensor(row, begin + i * kTile * kSide));
          }
          for (int64_t i = 0; i < 16; ++i, ++task) {
            graph.Write(graph.Tensor(column, begin + i * kTile));
          }
          graph.Write(graph.Tensor(all, begin));
          ++task;
        }
        return graph.Work();
      },
      kTasks);
}

// The same view again and again, as new tensors alternating with the first.
TEST(GraphScaleTest, LongChainsOfTheSameView) {
  ExpectLinear(
      [](int64_t count) {
        Writes graph;
        const uint32_t part = graph.Layout({64});
        const uint32_t all = graph.Tensor(graph.Layout({4096}), 0), first = graph.Tensor(part, 0);
        for (int64_t i = 0; i < count / 3; ++i) {
          graph.Write(all);
          graph.Write(graph.Tensor(part, 0));
          graph.Write(first);
        }
        return graph.Work();
      },
      kTasks / 2);
}

// Views with coprime strides, each overlapping some others.
TEST(GraphScaleTest, ViewsWithOddStrides) {
  ExpectLinear(
      [](int64_t count) {
        Writes graph;
        Numbers numbers;
        std::vector<uint32_t> layouts;
        for (int64_t i = 0; i < 50; ++i) {
          layouts.push_back(graph.Layout({4, 3}, {101 + 2 * i, 7 + i % 11}));
        }
        for (int64_t i = 0; i < count; ++i) {
          graph.Write(graph.Tensor(layouts[static_cast<size_t>(numbers.Below(50))], i * 200));
        }
        return graph.Work();
      },
      kTasks / 5);
}

// The maximum number of buffers, each used in pieces.
TEST(GraphScaleTest, ManyBuffersInPieces) {
  ExpectLinear(
      [](int64_t buffers) {
        Writes graph;
        const uint32_t piece = graph.Layout({64}), half = graph.Layout({256});
        for (int64_t i = 0; i < buffers; ++i) {
          const std::string name = "b" + std::to_string(i);
          for (const int64_t offset : {0, 128, 256, 384}) {
            graph.Write(graph.Tensor(name, piece, offset));
          }
          graph.Write(graph.Tensor(name, half, 256));
        }
        return graph.Work();
      },
      65'536 / kScale);
}

// Each segment has a new tensor with the same view as an old one.
TEST(GraphScaleTest, AnOpenGraphOfManySegments) {
  ExpectLinear(
      [](int64_t segments) {
        OpenGraph graph(engine::testing::GraphTestTarget());
        const std::vector<ScalarInput> scalars(2);
        const uint32_t step = graph.AddKernel("step").value();
        const uint32_t slot = graph.AddSlot("m");
        const uint32_t layout = graph.AddLayout(PTO_U8, {64}, {}).value();
        const uint32_t first = graph.AddTensor(slot, layout, 0).value();
        for (int64_t i = 0; i < segments; ++i) {
          for (const uint32_t tensor : {graph.AddTensor(slot, layout, 0).value(), first}) {
            TaskInput task;
            task.kernel = step;
            task.args = absl::MakeConstSpan(&tensor, 1);
            task.scalars = scalars;
            EXPECT_THAT(graph.AddTask(task), IsOk());
          }
          EXPECT_THAT(graph.Cut(), IsOk());
          if (::testing::Test::HasFailure()) break;
          graph.ForgetBefore(graph.task_count());
        }
        return static_cast<double>(graph.work()) / static_cast<double>(segments);
      },
      kTasks);
}

}  // namespace
}  // namespace pto::engine
