#include "daemon/graph/spec_decoder.h"

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/graph/spec_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/error.h"
#include "runtime/base/status_matchers.h"
#include "runtime/graph/graph_testing.h"

namespace pto::daemon {
namespace {

using ::pto::daemon::testing::Decode;
using ::pto::daemon::testing::kX;
using ::pto::daemon::testing::Nop;
using ::pto::daemon::testing::Parse;
using ::pto::daemon::testing::Task;
using ::pto::engine::testing::GraphTestTarget;
using ::pto::testing::HasReason;
using ::pto::testing::IsOk;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Bits of a double.
uint64_t Bits(double value) {
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

constexpr char kGood[] = R"(
  tensors { name: "x" dtype: F32 shape: 4 shape: 8 }
  tensors { name: "y" buffer: "x" dtype: F32 shape: 4 shape: 8 offset: 32 }
  tensors { name: "z" buffer: "sessions/s1/buffers/out" dtype: F32 shape: [4, 8] strides: [16, 2] }
  tensors { name: "all" buffer: "out" dtype: U8 shape: [2, 3, 4, 5, 6] }
  tensors { name: "none" buffer: "out" dtype: F64 shape: [7, 0] offset: 1000000 }
  scalars { name: "alpha" value { f64: 0.5 } }
  scalars { name: "n" value { i64: 9 } }
  scalars { name: "spare" value { i64: 2 } }
  tasks { name: "start" kernel: "nop" chip: "chips/1" }
  tasks {
    kernel: "kernels/axpy" chip: "chips/0" args: ["z", "x", "y"] scalars { ref: "alpha" }
    after: "start"
  }
  tasks {
    name: "again" kernel: "axpy" chip: "chips/0" args: ["z", "z", "x"] scalars { i64: -3 }
    launch { core: MIX block_num: 5 } after: "1" after: "start" after: "1"
  }
  tasks {
    name: "1" kernel: "step" chip: "chips/0" args: "all" scalars { f64: 2 } scalars { ref: "n" }
    after: "again"
  }
  tasks { name: "end" kernel: "nop" chip: "chips/0" after: ["again", "start"] }
)";

TEST(SpecDecoderTest, RefusesAnIndexThatIsTheNameOfALaterTask) {
  // In kGood, "1" is the name of task 3, so it does not mean the task of index 1.
  const absl::StatusOr<DecodedGraph> graph = Decode(kGood);
  ASSERT_THAT(graph, HasReason(reason::kDependencyCycle));
  EXPECT_EQ(GetErrorDetail(graph.status())->field, "graph.tasks[2].after[0]");
}

TEST(SpecDecoderTest, DecodesAGraph) {
  v1::GraphSpec spec = Parse(kGood);
  spec.mutable_tasks(3)->set_name("one");
  const absl::StatusOr<DecodedGraph> graph = DecodeGraphSpec(spec, "s1", GraphTestTarget());
  ASSERT_THAT(graph, IsOk());
  const engine::GraphImage& image = *graph->image;

  ASSERT_EQ(image.task_count(), 5u);
  EXPECT_THAT(image.roots(), ElementsAre(0));
  EXPECT_THAT(image.chips(), ElementsAre(0, 1));
  EXPECT_THAT(image.successors(0), ElementsAre(1, 2, 4));
  EXPECT_THAT(image.successors(1), ElementsAre(2));
  EXPECT_THAT(image.successors(2), ElementsAre(3, 4));
  EXPECT_THAT(image.successors(3), IsEmpty());
  EXPECT_EQ(image.tasks()[2].dependencies, 2u);
  EXPECT_EQ(image.task_name(0), "start");
  EXPECT_EQ(image.task_name(1), "");
  EXPECT_EQ(image.tasks()[0].chip, 1);
  EXPECT_EQ(image.tasks()[1].core, PTO_AIV);
  EXPECT_EQ(image.tasks()[2].core, PTO_MIX);
  EXPECT_EQ(image.tasks()[2].block_num, 5u);

  // Both spellings of a kernel, of a buffer and of a layout are the same object.
  EXPECT_EQ(image.kernels().size(), 3u);
  EXPECT_EQ(image.tasks()[1].kernel, image.tasks()[2].kernel);
  ASSERT_EQ(image.slots().size(), 2u);
  EXPECT_EQ(image.text(image.slots()[0].name), "x");
  EXPECT_EQ(image.slots()[0].min_bytes, 64u * 4);
  EXPECT_EQ(image.slots()[0].largest_tensor, 1u);
  EXPECT_EQ(image.text(image.slots()[1].name), "out");
  EXPECT_EQ(image.slots()[1].min_bytes, 720u);
  EXPECT_EQ(image.slots()[1].largest_tensor, 3u);
  ASSERT_EQ(image.tensors().size(), 5u);
  EXPECT_EQ(image.tensors()[0].layout, image.tensors()[1].layout);
  EXPECT_EQ(image.layouts().size(), 4u);
  EXPECT_EQ(image.layouts()[image.tensors()[2].layout].extent, 3 * 16 + 7 * 2 + 1);
  EXPECT_EQ(image.layouts()[image.tensors()[3].layout].ndim, 5u);
  EXPECT_EQ(image.layouts()[image.tensors()[4].layout].extent, 0);
  EXPECT_EQ(image.tensors()[4].offset, 1000000);
  EXPECT_THAT(image.args(1), ElementsAre(2, 0, 1));
  EXPECT_THAT(image.args(2), ElementsAre(2, 2, 0));

  ASSERT_EQ(image.scalar_names().size(), 3u);
  EXPECT_EQ(image.text(image.scalar_names()[1].name), "n");
  EXPECT_EQ(image.scalar_names()[1].type, static_cast<uint32_t>(PTO_INTEGER));
  EXPECT_EQ(image.scalar_names()[2].type, 0u);
  EXPECT_THAT(image.scalar_values().subspan(0, 2), ElementsAre(Bits(0.5), 9));
  EXPECT_THAT(image.scalar_refs(1), ElementsAre(0));
  EXPECT_EQ(image.scalar_values()[image.scalar_refs(2)[0]], Bits(-3.0));
  EXPECT_EQ(image.scalar_values()[image.scalar_refs(3)[0]], Bits(2.0));
  EXPECT_EQ(image.scalar_refs(3)[1], 1u);
}

TEST(SpecDecoderTest, AnyNameCanNameASlotOfItsOwn) {
  const absl::StatusOr<DecodedGraph> graph = Decode(R"(
    tensors { name: "Some Tensor" dtype: F16 }
    tasks { kernel: "cube" chip: "chips/0" args: "Some Tensor" })");
  ASSERT_THAT(graph, IsOk());
  EXPECT_EQ(graph->image->text(graph->image->slots()[0].name), "Some Tensor");
  EXPECT_EQ(graph->image->slots()[0].min_bytes, 2u);
}

TEST(SpecDecoderTest, DecodesDetails) {
  const absl::StatusOr<DecodedGraph> graph = Decode(R"(
    tensors { name: "h0" dtype: F16 } tensors { name: "h1" dtype: F16 }
    tensors { name: "word" dtype: I64 } tensors { name: "token" dtype: U8 }
    tensors { name: "data" dtype: F32 shape: 4 }
    tasks {
      kernel: "cube" launch { block_num: 4 timeout { seconds: 2 nanos: 5 } }
      members { chip: "chips/1" args: "h1" } members { chip: "chips/0" args: "h0" }
    }
    tasks {
      kernel: "step" chip: "chips/0" args: "data" scalars { f64: 1 } scalars { i64: 2 }
      launch { core: MIX block_num: 24 require_sync_start: true vector_kernels: "kernels/step" }
      predicate { tensor: "token" compare: NE value: -3 }
    }
    tasks { kernel: "notify" args: "word" scalars { op: ADD } scalars { i64: 2 } }
    tasks {
      kernel: "wait_token" args: ["word", "token"]
      scalars { compare: GE } scalars { i64: 2 } scalars { i64: 0 }
    }
    tasks {
      kernel: "step" chip: "chips/0" args: "data" scalars { f64: 1 } scalars { i64: 2 }
      no_dependency_args: [0, 0]
    })");
  ASSERT_THAT(graph, IsOk());
  const engine::GraphImage& image = *graph->image;
  ASSERT_NE(image.detail(0), nullptr);
  EXPECT_THAT(image.members(*image.detail(0)), ElementsAre(1, 0));
  EXPECT_THAT(image.args(0, 0), ElementsAre(1));
  EXPECT_THAT(image.args(0, 1), ElementsAre(0));
  EXPECT_EQ(image.detail(0)->timeout_ns, 2'000'000'005);
  EXPECT_EQ(image.tasks()[1].traits, engine::kTaskGang | engine::kTaskMixed |
                                         engine::kTaskPredicated | engine::kTaskHasDetail);
  ASSERT_NE(image.detail(1), nullptr);
  EXPECT_EQ(image.detail(1)->vector_kernels[0], image.tasks()[1].kernel);
  EXPECT_EQ(image.detail(1)->predicate_tensor, 3u);
  EXPECT_EQ(image.detail(1)->predicate_compare, static_cast<uint32_t>(PTO_NE));
  EXPECT_EQ(image.detail(1)->predicate_value, -3);
  EXPECT_EQ(image.tasks()[2].traits, engine::kTaskControl);
  EXPECT_EQ(image.tasks()[2].chip, 0);
  EXPECT_EQ(image.scalar_values()[image.scalar_refs(2)[0]], uint64_t{PTO_ADD});
  EXPECT_EQ(image.scalar_values()[image.scalar_refs(3)[0]], uint64_t{PTO_GE});
  EXPECT_EQ(image.slots()[2].chip, uint32_t{engine::ImageSlot::kAnyChip});
  // The token was read before it was written; task 4 waits for nothing.
  EXPECT_THAT(image.successors(1), ElementsAre(3));
  EXPECT_EQ(image.detail(4)->no_dependency_args, 1u);
  EXPECT_EQ(image.tasks()[4].dependencies, 0u);
}

TEST(SpecDecoderTest, OnlyNamedDependenciesIfWanted) {
  const std::string steps =
      std::string(kX) +
      "tasks { kernel: 'step' chip: 'chips/0' args: 'x' scalars { f64: 1 } scalars { i64: 1 } }"
      "tasks { kernel: 'step' chip: 'chips/0' args: 'x' scalars { f64: 1 } scalars { i64: 1 } }"
      "tasks { kernel: 'nop' chip: 'chips/0' after: '0' }";
  EXPECT_THAT(Decode(steps)->image->successors(0), ElementsAre(1, 2));
  EXPECT_THAT(Decode(steps + "explicit_dependencies_only: true")->image->successors(0),
              ElementsAre(2));
}

TEST(SpecDecoderTest, ErrorsOfATaskSayItsName) {
  const absl::StatusOr<DecodedGraph> graph = Decode(Task("name: 'mine' kernel: 'none'"));
  EXPECT_THAT(GetErrorDetail(graph.status())->metadata,
              ::testing::Contains(std::pair<std::string, std::string>("task_name", "mine")));
}

TEST(SpecDecoderTest, TooManyTasks) {
  engine::GraphTarget target = GraphTestTarget();
  target.max_tasks = 1;
  EXPECT_THAT(DecodeGraphSpec(Parse(Nop()), "s1", target), IsOk());
  const absl::StatusOr<DecodedGraph> graph = DecodeGraphSpec(Parse(Nop(Nop())), "s1", target);
  ASSERT_THAT(graph, HasReason(reason::kGraphTooLarge));
  EXPECT_EQ(GetErrorDetail(graph.status())->field, "graph.tasks");
  EXPECT_EQ(GetErrorDetail(graph.status())->quota->requested, 2u);
}

TEST(SpecDecoderTest, TooManyTensors) {
  const std::string text = Nop("tensors { name: 'a' dtype: F32 } tensors { name: 'b' dtype: F32 }");
  const engine::GraphTarget target = GraphTestTarget();
  EXPECT_THAT(DecodeGraphSpec(Parse(text), "s1", target, {.max_tensors = 2}), IsOk());
  const absl::StatusOr<DecodedGraph> graph =
      DecodeGraphSpec(Parse(text), "s1", target, {.max_tensors = 1});
  ASSERT_THAT(graph, HasReason(reason::kGraphTooLarge));
  EXPECT_EQ(GetErrorDetail(graph.status())->field, "graph.tensors");
  EXPECT_EQ(GetErrorDetail(graph.status())->quota->requested, 2u);
}

TEST(SpecDecoderTest, TooManyEdges) {
  const std::string waits = "tasks { kernel: 'nop' chip: 'chips/0' after: '0' }";
  const std::string text = Nop() + waits + waits;
  const engine::GraphTarget target = GraphTestTarget();
  EXPECT_THAT(DecodeGraphSpec(Parse(text), "s1", target, {.max_edges = 2}), IsOk());
  const absl::StatusOr<DecodedGraph> graph =
      DecodeGraphSpec(Parse(text), "s1", target, {.max_edges = 1});
  ASSERT_THAT(graph, HasReason(reason::kGraphTooLarge));
  EXPECT_EQ(GetErrorDetail(graph.status())->field, "graph.tasks[2].after");
  EXPECT_EQ(GetErrorDetail(graph.status())->quota->usage, 1u);
}

TEST(SpecDecoderTest, LongestNamesAreWell) {
  const std::string longest(255, 'n');
  EXPECT_THAT(Decode(absl::StrCat("tensors { name: '", longest, "' dtype: F16 } scalars { name: '",
                                  longest, "' value { f64: 1 } } tasks { name: '", longest,
                                  "' kernel: 'cube' chip: 'chips/0' args: '", longest, "' }")),
              IsOk());
}

// A graph whose tensors overlap in too many ways is rejected at the task that exceeds the budget.
TEST(SpecDecoderTest, TooManyComparisons) {
  v1::GraphSpec spec;
  for (int i = 0; i < 3000; ++i) {
    v1::TensorSpec& tensor = *spec.add_tensors();
    tensor.set_name(absl::StrCat("t", i));
    tensor.set_buffer("b");
    tensor.set_dtype(v1::F32);
    tensor.add_shape(1000);
    // Tensors with one stride are at even offsets, those with the other at odd ones.
    tensor.add_strides(i % 2 == 0 ? 64 : 62);
    tensor.set_offset(i);
    v1::TaskSpec& task = *spec.add_tasks();
    task.set_kernel("step");
    task.set_chip("chips/0");
    task.add_args(tensor.name());
    task.add_scalars()->set_f64(1);
    task.add_scalars()->set_i64(1);
  }
  engine::GraphTarget target = GraphTestTarget();
  EXPECT_THAT(DecodeGraphSpec(spec, "s1", target), IsOk());
  target.base_work = 0;
  const absl::Status status = DecodeGraphSpec(spec, "s1", target).status();
  ASSERT_THAT(status, HasReason(reason::kGraphTooLarge));
  const absl::optional<ErrorDetail> detail = GetErrorDetail(status);
  EXPECT_THAT(detail->field, ::testing::MatchesRegex("graph\\.tasks\\[[0-9]+\\]\\.args\\[0\\]"));
  EXPECT_EQ(detail->quota->name, "max_argument_comparisons");

  int asked = 0;
  EXPECT_THAT(DecodeGraphSpec(spec, "s1", GraphTestTarget(), {}, [&asked] { return ++asked > 2; }),
              HasReason(reason::kClientGone));
  EXPECT_EQ(asked, 3);
}

}  // namespace
}  // namespace pto::daemon
