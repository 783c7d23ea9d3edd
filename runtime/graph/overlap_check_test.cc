#include "runtime/graph/overlap_check.h"

#include <algorithm>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/builtin_kernels.h"
#include "kernels/dtype.h"
#include "runtime/base/error.h"
#include "runtime/base/status_matchers.h"
#include "runtime/graph/builder.h"
#include "runtime/graph/open_graph.h"

namespace pto::engine {
namespace {

using ::pto::testing::HasReason;

// The elements of a view, relative to the first.
std::vector<int64_t> Elements(const Layout& layout) {
  std::vector<int64_t> all = {0};
  for (uint32_t d = 0; d < layout.ndim; ++d) {
    std::vector<int64_t> next;
    for (const int64_t at : all) {
      for (int64_t i = 0; i < layout.shape[d]; ++i) next.push_back(at + i * layout.strides[d]);
    }
    all = std::move(next);
  }
  return all;
}

TEST(OverlapCheckTest, ElementsThatOverlapAreFound) {
  std::minstd_rand random(1);
  const auto below = [&](uint32_t n) { return static_cast<int64_t>(random() % n); };
  int overlapping = 0;
  int apart_though_not_nested = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::vector<int64_t> shape, strides;
    for (int64_t d = below(5); d >= 0; --d) {
      shape.push_back(below(8) == 0 ? 0 : 1 + below(5));
      strides.push_back(1 + below(round % 2 == 0 ? 12 : 60));
    }
    const Layout layout = MakeLayout(PTO_F32, shape, strides).value();
    std::vector<int64_t> elements = Elements(layout);
    const size_t count = elements.size();
    std::sort(elements.begin(), elements.end());
    elements.erase(std::unique(elements.begin(), elements.end()), elements.end());
    const bool overlaps = elements.size() < count;
    ASSERT_EQ(HasOverlappingElements(layout), overlaps) << round;
    overlapping += overlaps ? 1 : 0;
    std::vector<std::pair<int64_t, int64_t>> dims;
    for (size_t d = 0; d < shape.size(); ++d) {
      if (shape[d] > 1) dims.push_back({strides[d], shape[d]});
    }
    std::sort(dims.begin(), dims.end());
    int64_t reach = 0;
    bool nested = true;
    for (const auto& [stride, size] : dims) {
      nested &= stride > reach;
      reach += (size - 1) * stride;
    }
    apart_though_not_nested += !overlaps && !nested && count > 0 ? 1 : 0;
  }
  EXPECT_GT(overlapping, 1000);
  EXPECT_GT(apart_though_not_nested, 1000);
}

TEST(OverlapCheckTest, SameViewsMayDifferInStridesThatDoNotMatter) {
  const Layout layout = MakeLayout(PTO_F32, {1, 4}, {4, 1}).value();
  EXPECT_TRUE(IsSameView(layout, MakeLayout(PTO_F32, {1, 4}, {9, 1}).value()));
  EXPECT_FALSE(IsSameView(layout, MakeLayout(PTO_F32, {1, 4}, {4, 2}).value()));
  EXPECT_FALSE(IsSameView(layout, MakeLayout(PTO_I32, {1, 4}, {4, 1}).value()));
  EXPECT_FALSE(IsSameView(layout, MakeLayout(PTO_F32, {4}, {1}).value()));
  EXPECT_FALSE(IsSameView(layout, MakeLayout(PTO_F32, {1, 3}, {4, 1}).value()));
}

// Every built-in kernel and its declared overlaps. When you add a kernel, add it here, and a case
// to runtime/engine/overlap_test.cc.
TEST(OverlapCheckTest, WhatBuiltInKernelsSay) {
  std::vector<std::string> all;
  for (const auto& kernel : BuiltinKernels().List()) {
    const pto_kernel_info& info = kernel->info();
    for (const ArgumentPair& pair : FindArgumentPairs(info)) {
      all.push_back(std::string(info.name) + ": " + info.arguments[pair.written].name +
                    (pair.may_be_same ? " is apart from or same as " : " is apart from ") +
                    info.arguments[pair.other].name);
    }
  }
  EXPECT_EQ(all, (std::vector<std::string>{
                     "add: out is apart from or same as a",
                     "add: out is apart from or same as b",
                     "axpy: y is apart from or same as x",
                     "copy: out is apart from or same as in",
                     "copy_async: to is apart from or same as from",
                     "matmul: out is apart from a",
                     "matmul: out is apart from b",
                     "mul: out is apart from or same as a",
                     "mul: out is apart from or same as b",
                     "scale: out is apart from or same as in",
                     "scale_rows: out is apart from or same as in",
                     "scale_rows: out is apart from weight",
                     "sub: out is apart from or same as a",
                     "sub: out is apart from or same as b",
                     "sum_rows: out is apart from in",
                     "sum_rows: out is apart from index",
                     "take_rows: out is apart from in",
                     "take_rows: out is apart from index",
                 }));
}

GraphTarget Target() {
  GraphTarget target;
  target.kernels = &BuiltinKernels();
  target.chip_clusters = {4, 4};
  return target;
}

// A graph with views of slots "x" and "y".
class OverlapGraphTest : public ::testing::Test {
 protected:
  uint32_t Kernel(const char* name) { return builder_.AddKernel(name).value(); }
  uint32_t View(uint32_t slot, std::vector<int64_t> shape, std::vector<int64_t> strides,
                int64_t offset) {
    const uint32_t layout = builder_.AddLayout(PTO_F32, shape, strides).value();
    return builder_.AddTensor(slot, layout, offset).value();
  }
  absl::Status Add(uint32_t kernel, std::vector<uint32_t> args, uint32_t no_dependency_args = 0) {
    TaskInput task;
    task.kernel = kernel;
    task.args = args;
    task.no_dependency_args = no_dependency_args;
    task.name = "this one";
    return builder_.AddTask(task).status();
  }

  GraphBuilder builder_{Target()};
  const uint32_t x_ = builder_.AddSlot("x");
  const uint32_t y_ = builder_.AddSlot("y");
};

TEST_F(OverlapGraphTest, CopyOntoAShiftedViewIsRefused) {
  const uint32_t copy = Kernel("copy");
  const absl::Status refused = Add(copy, {View(x_, {100}, {}, 0), View(x_, {100}, {}, 1)});
  EXPECT_THAT(refused, HasReason(reason::kArgumentsOverlap));
  EXPECT_EQ(refused.message(),
            "task 'this one': 'out' of kernel 'copy' overlaps 'in', and is not the same view");
  const ErrorDetail detail = GetErrorDetail(refused).value();
  EXPECT_EQ(detail.field, "args[1]");
  EXPECT_EQ(
      detail.hint,
      "'out' of 'copy' may be exactly the same view as 'in'; otherwise it needs its own memory");
}

TEST_F(OverlapGraphTest, MatmulOntoItsSecondInputIsRefused) {
  const uint32_t matmul = Kernel("matmul");
  const uint32_t a = View(y_, {4, 4}, {}, 0);
  const uint32_t b = View(x_, {4, 4}, {}, 0);
  const absl::Status refused = Add(matmul, {a, b, b});
  EXPECT_THAT(refused, HasReason(reason::kArgumentsOverlap));
  EXPECT_EQ(refused.message(), "task 'this one': 'out' of kernel 'matmul' overlaps 'b'");
  EXPECT_EQ(GetErrorDetail(refused)->hint, "'out' of 'matmul' needs its own memory");
}

TEST_F(OverlapGraphTest, WhatIsWrittenMustNotOverlapItself) {
  const uint32_t fill = Kernel("fill");
  TaskInput task;
  task.kernel = fill;
  const uint32_t arg = View(x_, {4, 4}, {1, 1}, 0);
  task.args = {&arg, 1};
  const ScalarInput zero;
  task.scalars = {&zero, 1};
  const absl::Status refused = builder_.AddTask(task).status();
  EXPECT_THAT(refused, HasReason(reason::kArgumentsOverlap));
  EXPECT_EQ(refused.message(),
            "elements of 'out' of kernel 'fill', which writes it, overlap each other");
  EXPECT_EQ(GetErrorDetail(refused)->field, "args[0]");
}

TEST_F(OverlapGraphTest, WhatIsReadMayOverlapAnythingThatIsRead) {
  const uint32_t add = Kernel("add");
  const uint32_t sliding = View(x_, {4, 4}, {1, 1}, 0);
  EXPECT_TRUE(Add(add, {sliding, sliding, View(y_, {4, 4}, {}, 0)}).ok());
  EXPECT_TRUE(Add(add, {sliding, View(x_, {4, 4}, {}, 3), View(y_, {4, 4}, {}, 0)}).ok());
}

// Errors that the fast path for repeated tasks must not miss.
TEST_F(OverlapGraphTest, TasksOfTheSameLayoutsAreLookedAtEachTime) {
  const uint32_t copy = Kernel("copy");
  const uint32_t layout = builder_.AddLayout(PTO_F32, {10}, {}).value();
  std::vector<uint32_t> at;
  for (int64_t i = 0; i < 40; ++i) at.push_back(builder_.AddTensor(x_, layout, i).value());
  const uint32_t again = builder_.AddTensor(x_, layout, 7).value();
  EXPECT_TRUE(Add(copy, {at[0], at[10]}).ok());
  EXPECT_TRUE(Add(copy, {at[20], at[10]}).ok());
  EXPECT_TRUE(Add(copy, {at[5], at[5]}).ok());
  EXPECT_TRUE(Add(copy, {at[7], again}).ok());
  EXPECT_TRUE(Add(copy, {at[0], at[39]}).ok());
  EXPECT_THAT(Add(copy, {at[0], at[9]}), HasReason(reason::kArgumentsOverlap));
}

TEST_F(OverlapGraphTest, TilesOfAMatrixAreApart) {
  const uint32_t copy = Kernel("copy");
  // The byte ranges overlap, but the elements do not.
  EXPECT_TRUE(Add(copy, {View(x_, {8, 4}, {8, 1}, 0), View(x_, {8, 4}, {8, 1}, 4)}).ok());
  EXPECT_TRUE(Add(copy, {View(x_, {16}, {2}, 0), View(x_, {16}, {2}, 1)}).ok());
  EXPECT_TRUE(Add(copy, {View(x_, {16}, {2}, 1), View(x_, {16}, {2}, 0)}).ok());
  EXPECT_THAT(Add(copy, {View(x_, {8, 4}, {8, 1}, 0), View(x_, {8, 4}, {8, 1}, 3)}),
              HasReason(reason::kArgumentsOverlap));
}

TEST_F(OverlapGraphTest, ATransposeInPlaceIsRefused) {
  const uint32_t copy = Kernel("copy");
  EXPECT_THAT(Add(copy, {View(x_, {4, 4}, {4, 1}, 0), View(x_, {4, 4}, {1, 4}, 0)}),
              HasReason(reason::kArgumentsOverlap));
}

TEST_F(OverlapGraphTest, ArgumentsThatMakeNoDependencyAreLookedAtToo) {
  const uint32_t copy = Kernel("copy");
  EXPECT_THAT(Add(copy, {View(x_, {10}, {}, 0), View(x_, {10}, {}, 1)}, /*no_dependency_args=*/1),
              HasReason(reason::kArgumentsOverlap));
}

TEST_F(OverlapGraphTest, MembersAreNamed) {
  TaskInput task;
  task.kernel = Kernel("copy");
  const uint32_t first[] = {View(x_, {10}, {}, 0), View(x_, {10}, {}, 10)};
  const uint32_t second[] = {View(y_, {10}, {}, 0), View(y_, {10}, {}, 9)};
  const TaskInput::Member members[] = {{0, first}, {1, second}};
  task.members = members;
  const absl::Status refused = builder_.AddTask(task).status();
  EXPECT_THAT(refused, HasReason(reason::kArgumentsOverlap));
  EXPECT_EQ(GetErrorDetail(refused)->field, "members[1].args[1]");
}

// Kernels that run side by side would read each other's output.
TEST_F(OverlapGraphTest, NothingIsInPlaceBesideAnotherKernel) {
  TaskInput task;
  task.kernel = Kernel("copy");
  task.core = PTO_MIX;
  const uint32_t view = View(x_, {10}, {}, 0);
  const uint32_t args[] = {view, view};
  task.args = args;
  const uint32_t vector_kernels[] = {task.kernel};
  task.vector_kernels = vector_kernels;
  const absl::Status refused = builder_.AddTask(task).status();
  EXPECT_THAT(refused, HasReason(reason::kArgumentsOverlap));
  EXPECT_EQ(GetErrorDetail(refused)->hint,
            "in a task with launch.vector_kernels, no argument may be written in place");
}

TEST(OverlapOpenGraphTest, SegmentsAreLookedAt) {
  OpenGraph graph(Target());
  const uint32_t slot = graph.AddSlot("x");
  const uint32_t layout = graph.AddLayout(PTO_F32, {10}, {}).value();
  const uint32_t args[] = {graph.AddTensor(slot, layout, 0).value(),
                           graph.AddTensor(slot, layout, 10).value()};
  const uint32_t shifted[] = {args[0], graph.AddTensor(slot, layout, 1).value()};
  TaskInput task;
  task.kernel = graph.AddKernel("copy_async").value();
  task.args = args;
  ASSERT_TRUE(graph.AddTask(task).ok());
  ASSERT_TRUE(graph.Cut().ok());
  task.args = shifted;
  const absl::Status refused = graph.AddTask(task).status();
  EXPECT_THAT(refused, HasReason(reason::kArgumentsOverlap));
  // copy_async writes its first argument.
  EXPECT_EQ(GetErrorDetail(refused)->field, "args[0]");
}

// A launch can bind several slots to one buffer.
class OverlapLaunchTest : public OverlapGraphTest {
 protected:
  absl::Status Launch(const GraphImage& image, uint64_t x_offset, uint64_t y_offset) {
    const SlotMemory slots[] = {{&memory_, x_offset}, {&memory_, y_offset}};
    const SlotPlaces places = FindAliases(image, slots);
    return places.empty() ? absl::OkStatus() : CheckOverlaps(image, places);
  }
  const char memory_ = 0;
};

TEST_F(OverlapLaunchTest, OnlyWhatTheKernelSupportsCanBeBound) {
  const uint32_t copy = Kernel("copy");
  ASSERT_TRUE(Add(copy, {View(x_, {10}, {}, 0), View(y_, {10}, {}, 0)}).ok());
  const auto image = builder_.Build().value();
  EXPECT_TRUE(Launch(*image, 0, 40).ok());
  EXPECT_TRUE(Launch(*image, 40, 40).ok());
  const absl::Status refused = Launch(*image, 0, 4);
  EXPECT_THAT(refused, HasReason(reason::kArgumentsOverlap));
  EXPECT_EQ(refused.message(),
            "task 0 'this one': 'out' of kernel 'copy' overlaps 'in' where slots 'y' and 'x' are "
            "bound, and is not the same view");
  EXPECT_EQ(GetErrorDetail(refused)->field, "buffers");
}

TEST_F(OverlapLaunchTest, ViewsOfOtherTasksMayOverlap) {
  const uint32_t copy = Kernel("copy");
  ASSERT_TRUE(Add(copy, {View(x_, {10}, {}, 0), View(x_, {10}, {}, 10)}).ok());
  ASSERT_TRUE(Add(copy, {View(y_, {10}, {}, 0), View(y_, {10}, {}, 10)}).ok());
  const auto image = builder_.Build().value();
  EXPECT_TRUE(Launch(*image, 0, 4).ok());
}

TEST_F(OverlapLaunchTest, StridesAreComparedExactly) {
  const uint32_t copy = Kernel("copy");
  ASSERT_TRUE(Add(copy, {View(x_, {10}, {2}, 0), View(y_, {10}, {2}, 0)}).ok());
  const auto image = builder_.Build().value();
  EXPECT_TRUE(Launch(*image, 0, 4).ok());
  EXPECT_THAT(Launch(*image, 0, 2), HasReason(reason::kArgumentsOverlap));
  EXPECT_THAT(Launch(*image, 0, 8), HasReason(reason::kArgumentsOverlap));
}

TEST_F(OverlapLaunchTest, ArgumentsThatMakeNoDependencyAreLookedAtToo) {
  const uint32_t copy = Kernel("copy");
  ASSERT_TRUE(
      Add(copy, {View(x_, {10}, {}, 0), View(y_, {10}, {}, 0)}, /*no_dependency_args=*/3).ok());
  const auto image = builder_.Build().value();
  EXPECT_TRUE(Launch(*image, 0, 40).ok());
  EXPECT_THAT(Launch(*image, 0, 4), HasReason(reason::kArgumentsOverlap));
}

}  // namespace
}  // namespace pto::engine
