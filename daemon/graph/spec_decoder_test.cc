#include "daemon/graph/spec_decoder.h"

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "runtime/base/error.h"
#include "runtime/base/status_matchers.h"
#include "runtime/graph/graph_testing.h"

namespace pto {
namespace {

using ::pto::testing::GraphTestTarget;
using ::pto::testing::HasReason;
using ::pto::testing::IsOk;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

v1::GraphSpec Parse(const std::string& text) {
  v1::GraphSpec spec;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &spec)) << text;
  return spec;
}

absl::StatusOr<DecodedGraph> Decode(const std::string& text) {
  return DecodeGraphSpec(Parse(text), "s1", GraphTestTarget());
}

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
  const GraphImage& image = *graph->image;

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

  // Both spellings of a kernel, of a buffer and of a layout are one.
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

// One task that is well; `more` follows it.
std::string Nop(const std::string& more = "") {
  return R"(tasks { kernel: "nop" chip: "chips/0" } )" + more;
}

// A tensor `x` that is well, for tasks to use.
constexpr char kX[] = R"(tensors { name: "x" dtype: F32 shape: 4 } )";

std::string Tensor(const std::string& fields) { return Nop("tensors { " + fields + " }"); }

std::string Task(const std::string& fields) { return kX + Nop("tasks { " + fields + " }"); }

// A task of the kernel `step` on x, with these scalars.
std::string Step(const std::string& scalars) {
  return Task(R"(kernel: "step" chip: "chips/0" args: "x" )" + scalars);
}

struct Bad {
  std::string text;
  const Reason* reason;
  std::string field;
};

class BadSpecTest : public ::testing::TestWithParam<Bad> {};

TEST_P(BadSpecTest, IsRefusedAtItsField) {
  const absl::StatusOr<DecodedGraph> graph = Decode(GetParam().text);
  ASSERT_THAT(graph, HasReason(*GetParam().reason)) << GetParam().text;
  EXPECT_EQ(GetErrorDetail(graph.status())->field, GetParam().field)
      << GetParam().text << graph.status();
}

const std::string kLong(256, 'n');
const std::string kLongest(255, 'n');

INSTANTIATE_TEST_SUITE_P(
    Graph, BadSpecTest,
    ::testing::ValuesIn(std::vector<Bad>{
        Bad{"", &reason::kGraphEmpty, "graph.tasks"}, Bad{kX, &reason::kGraphEmpty, "graph.tasks"},
        // Names.
        Bad{Tensor("dtype: F32"), &reason::kFieldInvalid, "graph.tensors[0].name"},
        Bad{Tensor("name: '" + kLong + "' dtype: F32"), &reason::kFieldInvalid,
            "graph.tensors[0].name"},
        Bad{kX + Tensor("name: 'x' dtype: F32"), &reason::kFieldInvalid, "graph.tensors[1].name"},
        Bad{Nop("scalars { value { f64: 1 } }"), &reason::kFieldInvalid, "graph.scalars[0].name"},
        Bad{Nop("scalars { name: '" + kLong + "' value { f64: 1 } }"), &reason::kFieldInvalid,
            "graph.scalars[0].name"},
        Bad{Nop("scalars { name: 'a' value { f64: 1 } } scalars { name: 'a' value { f64: 1 } }"),
            &reason::kFieldInvalid, "graph.scalars[1].name"},
        Bad{Task("name: '" + kLong + "' kernel: 'nop' chip: 'chips/0'"), &reason::kFieldInvalid,
            "graph.tasks[1].name"},
        Bad{Task("name: 'a' kernel: 'nop' chip: 'chips/0'") +
                "tasks { name: 'a' kernel: 'nop' chip: 'chips/0' }",
            &reason::kTaskNameDuplicate, "graph.tasks[2].name"}}));

INSTANTIATE_TEST_SUITE_P(
    Tensors, BadSpecTest,
    ::testing::ValuesIn(std::vector<Bad>{
        Bad{Tensor("name: 'a'"), &reason::kTensorInvalid, "graph.tensors[0].dtype"},
        Bad{Tensor("name: 'a' dtype: DTYPE_UNSPECIFIED"), &reason::kTensorInvalid,
            "graph.tensors[0].dtype"},
        Bad{Tensor("name: 'a' dtype: 14"), &reason::kTensorInvalid, "graph.tensors[0].dtype"},
        Bad{Tensor("name: 'a' dtype: 257"), &reason::kTensorInvalid, "graph.tensors[0].dtype"},
        Bad{Tensor("name: 'a' dtype: -1"), &reason::kTensorInvalid, "graph.tensors[0].dtype"},
        Bad{Tensor("name: 'a' dtype: F32 shape: [1, 1, 1, 1, 1, 1]"), &reason::kTensorInvalid,
            "graph.tensors[0].shape"},
        Bad{kX + Tensor("name: 'a' dtype: F32 shape: [1, -1]"), &reason::kTensorInvalid,
            "graph.tensors[1].shape[1]"},
        Bad{Tensor("name: 'a' dtype: F32 shape: 9223372036854775807"), &reason::kTensorInvalid,
            "graph.tensors[0].shape[0]"},
        Bad{Tensor("name: 'a' dtype: F32 shape: [4294967296, 4294967296]"), &reason::kTensorInvalid,
            "graph.tensors[0].shape"},
        Bad{Tensor("name: 'a' dtype: F32 shape: [2, 2] strides: 1"), &reason::kTensorInvalid,
            "graph.tensors[0].strides"},
        Bad{Tensor("name: 'a' dtype: F32 strides: 1"), &reason::kTensorInvalid,
            "graph.tensors[0].strides"},
        Bad{Tensor("name: 'a' dtype: F32 shape: [2, 2] strides: [2, 0]"), &reason::kTensorInvalid,
            "graph.tensors[0].strides[1]"},
        Bad{Tensor("name: 'a' dtype: F32 shape: [2, 2] strides: [-2, 1]"), &reason::kTensorInvalid,
            "graph.tensors[0].strides[0]"},
        Bad{Tensor("name: 'a' dtype: F32 shape: 2 strides: 9223372036854775807"),
            &reason::kTensorInvalid, "graph.tensors[0].strides[0]"},
        Bad{Tensor("name: 'a' dtype: F32 shape: 1099511627776 strides: 1099511627776"),
            &reason::kTensorInvalid, "graph.tensors[0].strides"},
        Bad{Tensor("name: 'a' dtype: F32 offset: -1"), &reason::kTensorInvalid,
            "graph.tensors[0].offset"},
        Bad{Tensor("name: 'a' dtype: F32 offset: 9223372036854775807"), &reason::kTensorInvalid,
            "graph.tensors[0].offset"},
        Bad{Tensor("name: 'a' dtype: F32 shape: 0 offset: -1"), &reason::kTensorInvalid,
            "graph.tensors[0].offset"},
        // Buffers.
        Bad{Tensor("name: 'a' buffer: 'B' dtype: F32"), &reason::kIdInvalid,
            "graph.tensors[0].buffer"},
        Bad{Tensor("name: 'a' buffer: '" + std::string(64, 'b') + "' dtype: F32"),
            &reason::kIdInvalid, "graph.tensors[0].buffer"},
        Bad{Tensor("name: 'a' buffer: 'buffers/b' dtype: F32"), &reason::kNameInvalid,
            "graph.tensors[0].buffer"},
        Bad{Tensor("name: 'a' buffer: 'sessions/s1/runs/b' dtype: F32"), &reason::kNameInvalid,
            "graph.tensors[0].buffer"},
        Bad{Tensor("name: 'a' buffer: 'sessions/s1/buffers/' dtype: F32"), &reason::kIdInvalid,
            "graph.tensors[0].buffer"},
        Bad{Tensor("name: 'a' buffer: 'sessions/s2/buffers/b' dtype: F32"),
            &reason::kSessionMismatch, "graph.tensors[0].buffer"}}));

INSTANTIATE_TEST_SUITE_P(
    Scalars, BadSpecTest,
    ::testing::ValuesIn(std::vector<Bad>{
        Bad{Nop("scalars { name: 'a' }"), &reason::kScalarInvalid, "graph.scalars[0].value"},
        Bad{Nop("scalars { name: 'a' value { } }"), &reason::kScalarInvalid,
            "graph.scalars[0].value"},
        Bad{Nop("scalars { name: 'a' value { ref: 'a' } }"), &reason::kScalarInvalid,
            "graph.scalars[0].value.ref"},
        Bad{Step("scalars { f64: 1 } scalars { }"), &reason::kScalarInvalid,
            "graph.tasks[1].scalars[1]"},
        Bad{Step("scalars { f64: 1 } scalars { ref: 'a' }"), &reason::kScalarUnknown,
            "graph.tasks[1].scalars[1].ref"},
        Bad{Step("scalars { ref: '' } scalars { i64: 1 }"), &reason::kScalarUnknown,
            "graph.tasks[1].scalars[0].ref"},
        Bad{Step("scalars { f64: 1 } scalars { f64: 1.5 }"), &reason::kScalarInvalid,
            "graph.tasks[1].scalars[1]"},
        Bad{Step("scalars { f64: 1 } scalars { f64: nan }"), &reason::kScalarInvalid,
            "graph.tasks[1].scalars[1]"},
        Bad{Step("scalars { f64: 1 }"), &reason::kScalarCount, "graph.tasks[1].scalars"},
        Bad{Step("scalars { f64: 1 } scalars { i64: 1 } scalars { i64: 1 }"), &reason::kScalarCount,
            "graph.tasks[1].scalars"},
        Bad{"scalars { name: 'a' value { f64: 1.5 } }" +
                Step("scalars { f64: 1 } scalars { ref: 'a' }"),
            &reason::kScalarInvalid, "graph.scalars[0].value"},
        Bad{"scalars { name: 'a' value { i64: 1 } }" +
                Step("scalars { ref: 'a' } scalars { ref: 'a' }"),
            &reason::kScalarInvalid, "graph.tasks[1].scalars[1]"}}));

INSTANTIATE_TEST_SUITE_P(
    Tasks, BadSpecTest,
    ::testing::ValuesIn(std::vector<Bad>{
        Bad{Task("chip: 'chips/0'"), &reason::kFieldInvalid, "graph.tasks[1].kernel"},
        Bad{Task("kernel: 'none' chip: 'chips/0'"), &reason::kKernelUnknown,
            "graph.tasks[1].kernel"},
        Bad{Task("kernel: 'kernels/' chip: 'chips/0'"), &reason::kKernelUnknown,
            "graph.tasks[1].kernel"},
        Bad{Task("kernel: 'kernels/kernels/nop' chip: 'chips/0'"), &reason::kKernelUnknown,
            "graph.tasks[1].kernel"},
        Bad{Task("kernel: 'nop'"), &reason::kNameInvalid, "graph.tasks[1].chip"},
        Bad{Task("kernel: 'nop' chip: '0'"), &reason::kNameInvalid, "graph.tasks[1].chip"},
        Bad{Task("kernel: 'nop' chip: 'chips/-1'"), &reason::kNameInvalid, "graph.tasks[1].chip"},
        Bad{Task("kernel: 'nop' chip: 'chips/01'"), &reason::kNameInvalid, "graph.tasks[1].chip"},
        Bad{Task("kernel: 'nop' chip: 'chips/99999999999999999999'"), &reason::kNameInvalid,
            "graph.tasks[1].chip"},
        Bad{Task("kernel: 'nop' chip: 'chips/2'"), &reason::kChipUnknown, "graph.tasks[1].chip"},
        Bad{Task("kernel: 'nop' chip: 'chips/4294967295'"), &reason::kChipUnknown,
            "graph.tasks[1].chip"},
        // Arguments.
        Bad{Task("kernel: 'cube' chip: 'chips/0' args: 'y'"), &reason::kTensorUnknown,
            "graph.tasks[1].args[0]"},
        Bad{Task("kernel: 'cube' chip: 'chips/0' args: ''"), &reason::kTensorUnknown,
            "graph.tasks[1].args[0]"},
        Bad{Task("kernel: 'cube' chip: 'chips/0'"), &reason::kArgumentCount, "graph.tasks[1].args"},
        Bad{Task("kernel: 'nop' chip: 'chips/0' args: 'x'"), &reason::kArgumentCount,
            "graph.tasks[1].args"},
        Bad{Task("kernel: 'cube' chip: 'chips/0' args: 'x'"), &reason::kDtypeUnsupported,
            "graph.tasks[1].args[0]"},
        Bad{"tensors { name: 'w' buffer: 'x' dtype: F32 shape: 5 }" +
                Task("kernel: 'axpy' chip: 'chips/0' args: ['x', 'w', 'x'] scalars { f64: 1 }"),
            &reason::kArgumentInvalid, "graph.tasks[1].args"},
        Bad{Step("scalars { f64: 1 } scalars { i64: 1 }") +
                "tasks { kernel: 'axpy' chip: 'chips/1' args: ['x', 'x', 'x'] scalars { f64: 1 } }",
            &reason::kBufferOnOtherChip, "graph.tasks[2].args[0]"},
        // Launches.
        Bad{Task("kernel: 'nop' chip: 'chips/0' launch { core: 4 }"), &reason::kLaunchInvalid,
            "graph.tasks[1].launch.core"},
        Bad{Task("kernel: 'nop' chip: 'chips/0' launch { core: 258 }"), &reason::kLaunchInvalid,
            "graph.tasks[1].launch.core"},
        Bad{Task("kernel: 'nop' chip: 'chips/0' launch { core: -1 }"), &reason::kLaunchInvalid,
            "graph.tasks[1].launch.core"},
        Bad{Task("kernel: 'nop' chip: 'chips/0' launch { block_num: 4294967295 }"),
            &reason::kLaunchInvalid, "graph.tasks[1].launch.block_num"},
        Bad{Task("kernel: 'nop' chip: 'chips/0' launch { block_num: 49 require_sync_start: true }"),
            &reason::kLaunchInvalid, "graph.tasks[1].launch.block_num"},
        Bad{Task("kernel: 'gang' chip: 'chips/0'"), &reason::kLaunchInvalid,
            "graph.tasks[1].launch.require_sync_start"}}));

// A task of the kernel `nop`, which takes no argument, with these fields.
Bad BadNop(const std::string& fields, const Reason& reason, const std::string& field) {
  return {Task("kernel: 'nop' chip: 'chips/0' " + fields), &reason, "graph.tasks[1]." + field};
}

// A task of the kernel `cube`, over the chips, with tensors h0 and h1.
Bad BadGroup(const std::string& fields, const Reason& reason, const std::string& field) {
  return {
      "tensors { name: 'h0' dtype: F16 } tensors { name: 'h1' dtype: F16 } "
      "tasks { kernel: 'cube' " +
          fields + " }",
      &reason, "graph.tasks[0]." + field};
}

INSTANTIATE_TEST_SUITE_P(
    Details, BadSpecTest,
    ::testing::ValuesIn(std::vector<Bad>{
        // Times.
        BadNop("launch { timeout { seconds: -1 } }", reason::kFieldInvalid, "launch.timeout"),
        BadNop("launch { timeout { nanos: -1 } }", reason::kFieldInvalid, "launch.timeout"),
        BadNop("launch { timeout { seconds: 1 nanos: -1 } }", reason::kFieldInvalid,
               "launch.timeout"),
        BadNop("launch { timeout { nanos: 1000000000 } }", reason::kFieldInvalid, "launch.timeout"),
        BadNop("launch { timeout { seconds: 9223372036854775807 } }", reason::kFieldInvalid,
               "launch.timeout"),
        // Kernels of the vector cores.
        BadNop("launch { core: MIX vector_kernels: 'none' }", reason::kKernelUnknown,
               "launch.vector_kernels[0]"),
        BadNop("launch { core: MIX vector_kernels: ['nop', ''] }", reason::kFieldInvalid,
               "launch.vector_kernels[1]"),
        BadNop("launch { core: MIX vector_kernels: ['nop', 'nop', 'nop'] }", reason::kLaunchInvalid,
               "launch.vector_kernels"),
        BadNop("launch { core: AIV vector_kernels: 'nop' }", reason::kLaunchInvalid,
               "launch.vector_kernels"),
        BadNop("launch { core: MIX vector_kernels: ['nop', 'cube'] }", reason::kLaunchInvalid,
               "launch.vector_kernels[1]"),
        // Arguments without dependencies.
        BadNop("no_dependency_args: 0", reason::kFieldInvalid, "no_dependency_args[0]"),
        BadGroup("chip: 'chips/0' args: 'h0' no_dependency_args: [0, 1]", reason::kFieldInvalid,
                 "no_dependency_args[1]"),
        BadGroup("chip: 'chips/0' args: 'h0' no_dependency_args: 4294967295", reason::kFieldInvalid,
                 "no_dependency_args[0]"),
        // Predicates.
        BadNop("predicate { compare: EQ }", reason::kTensorUnknown, "predicate.tensor"),
        BadNop("predicate { tensor: 'none' compare: EQ }", reason::kTensorUnknown,
               "predicate.tensor"),
        BadNop("predicate { tensor: 'x' compare: EQ }", reason::kArgumentInvalid,
               "predicate.tensor"),
        BadGroup("chip: 'chips/0' args: 'h0' predicate { tensor: 'h0' compare: EQ }",
                 reason::kDtypeUnsupported, "predicate.tensor"),
        Bad{"tensors { name: 'w' dtype: I32 } " + Nop("tasks { kernel: 'nop' chip: 'chips/0' "
                                                      "predicate { tensor: 'w' } }"),
            &reason::kFieldInvalid, "graph.tasks[1].predicate.compare"},
        Bad{"tensors { name: 'w' dtype: I32 } " + Nop("tasks { kernel: 'nop' chip: 'chips/0' "
                                                      "predicate { tensor: 'w' compare: -1 } }"),
            &reason::kFieldInvalid, "graph.tasks[1].predicate.compare"},
        // Members.
        BadGroup("chip: 'chips/0' members { chip: 'chips/0' args: 'h0' }", reason::kFieldInvalid,
                 "chip"),
        BadGroup("args: 'h0' members { chip: 'chips/0' args: 'h0' }", reason::kFieldInvalid,
                 "args"),
        BadGroup("members { args: 'h0' }", reason::kNameInvalid, "members[0].chip"),
        BadGroup("members { chip: 'chips/0' args: 'h0' } members { chip: 'chips/2' args: 'h1' }",
                 reason::kChipUnknown, "members[1].chip"),
        BadGroup("members { chip: 'chips/0' args: 'h0' } members { chip: 'chips/0' args: 'h1' }",
                 reason::kLaunchInvalid, "members[1].chip"),
        BadGroup("members { chip: 'chips/0' args: 'h0' } members { chip: 'chips/1' args: 'h2' }",
                 reason::kTensorUnknown, "members[1].args[0]"),
        BadGroup("members { chip: 'chips/0' args: 'h0' } members { chip: 'chips/1' }",
                 reason::kArgumentCount, "members[1].args"),
        BadGroup("members { chip: 'chips/0' args: 'h0' } members { chip: 'chips/1' args: 'h0' }",
                 reason::kBufferOnOtherChip, "members[1].args[0]"),
        BadGroup("launch { block_num: 25 } members { chip: 'chips/0' args: 'h0' } "
                 "members { chip: 'chips/1' args: 'h1' }",
                 reason::kLaunchInvalid, "launch.block_num"),
        Bad{Nop("tasks { kernel: 'join' members { chip: 'chips/0' } }"), &reason::kLaunchInvalid,
            "graph.tasks[1].members"},
        // A chip may be missing only where no core is needed.
        Bad{Nop("tasks { kernel: 'nop' }"), &reason::kNameInvalid, "graph.tasks[1].chip"},
        Bad{Nop("tasks { kernel: 'join' chip: 'chips/2' }"), &reason::kChipUnknown,
            "graph.tasks[1].chip"},
        Bad{Nop("tasks { kernel: 'join' launch { block_num: 2 } }"), &reason::kLaunchInvalid,
            "graph.tasks[1].launch.block_num"},
        // Words for numbers.
        Bad{Step("scalars { compare: COMPARISON_UNSPECIFIED } scalars { i64: 1 }"),
            &reason::kScalarInvalid, "graph.tasks[1].scalars[0].compare"},
        Bad{Step("scalars { f64: 1 } scalars { compare: 7 }"), &reason::kScalarInvalid,
            "graph.tasks[1].scalars[1].compare"},
        Bad{Step("scalars { f64: 1 } scalars { op: -1 }"), &reason::kScalarInvalid,
            "graph.tasks[1].scalars[1].op"},
        Bad{Nop("scalars { name: 's' value { op: NOTIFY_OP_UNSPECIFIED } }"),
            &reason::kScalarInvalid, "graph.scalars[0].value.op"}}));

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
  const GraphImage& image = *graph->image;
  ASSERT_NE(image.detail(0), nullptr);
  EXPECT_THAT(image.members(*image.detail(0)), ElementsAre(1, 0));
  EXPECT_THAT(image.args(0, 0), ElementsAre(1));
  EXPECT_THAT(image.args(0, 1), ElementsAre(0));
  EXPECT_EQ(image.detail(0)->timeout_ns, 2'000'000'005);
  EXPECT_EQ(image.tasks()[1].traits, kTaskGang | kTaskMixed | kTaskPredicated | kTaskHasDetail);
  ASSERT_NE(image.detail(1), nullptr);
  EXPECT_EQ(image.detail(1)->vector_kernels[0], image.tasks()[1].kernel);
  EXPECT_EQ(image.detail(1)->predicate_tensor, 3u);
  EXPECT_EQ(image.detail(1)->predicate_compare, static_cast<uint32_t>(PTO_NE));
  EXPECT_EQ(image.detail(1)->predicate_value, -3);
  EXPECT_EQ(image.tasks()[2].traits, kTaskControl);
  EXPECT_EQ(image.tasks()[2].chip, 0);
  EXPECT_EQ(image.scalar_values()[image.scalar_refs(2)[0]], uint64_t{PTO_ADD});
  EXPECT_EQ(image.scalar_values()[image.scalar_refs(3)[0]], uint64_t{PTO_GE});
  EXPECT_EQ(image.slots()[2].chip, uint32_t{ImageSlot::kAnyChip});
  // The token was read before it was written; task 4 waits for nobody.
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

std::string After(const std::string& after) {
  return Task("name: 'a' kernel: 'nop' chip: 'chips/0' after: '0' after: '" + after + "'") +
         "tasks { name: 'b' kernel: 'nop' chip: 'chips/0' } tasks { kernel: 'nop' chip: 'chips/0' "
         "}";
}

INSTANTIATE_TEST_SUITE_P(
    After, BadSpecTest,
    ::testing::ValuesIn(std::vector<Bad>{
        Bad{After(""), &reason::kDependencyUnknown, "graph.tasks[1].after[1]"},
        Bad{After("c"), &reason::kDependencyUnknown, "graph.tasks[1].after[1]"},
        // Task 1 and task 2 have names, so their indices do not name them.
        Bad{After("1"), &reason::kDependencyUnknown, "graph.tasks[1].after[1]"},
        Bad{After("2"), &reason::kDependencyUnknown, "graph.tasks[1].after[1]"},
        Bad{After("00"), &reason::kDependencyUnknown, "graph.tasks[1].after[1]"},
        Bad{After("-1"), &reason::kDependencyUnknown, "graph.tasks[1].after[1]"},
        Bad{After("+0"), &reason::kDependencyUnknown, "graph.tasks[1].after[1]"},
        Bad{After("0 "), &reason::kDependencyUnknown, "graph.tasks[1].after[1]"},
        Bad{After("4"), &reason::kDependencyUnknown, "graph.tasks[1].after[1]"},
        Bad{After("4294967296"), &reason::kDependencyUnknown, "graph.tasks[1].after[1]"},
        Bad{After("a"), &reason::kDependencyCycle, "graph.tasks[1].after[1]"},
        Bad{After("b"), &reason::kDependencyCycle, "graph.tasks[1].after[1]"},
        Bad{After("3"), &reason::kDependencyCycle, "graph.tasks[1].after[1]"},
        Bad{Nop("tasks { kernel: 'nop' chip: 'chips/0' after: '1' }"), &reason::kDependencyCycle,
            "graph.tasks[1].after[0]"}}));

TEST(SpecDecoderTest, ErrorsOfATaskSayItsName) {
  const absl::StatusOr<DecodedGraph> graph = Decode(Task("name: 'mine' kernel: 'none'"));
  EXPECT_THAT(GetErrorDetail(graph.status())->metadata,
              ::testing::Contains(std::pair<std::string, std::string>("task_name", "mine")));
}

TEST(SpecDecoderTest, TooManyTasks) {
  GraphTarget target = GraphTestTarget();
  target.max_tasks = 1;
  EXPECT_THAT(DecodeGraphSpec(Parse(Nop()), "s1", target), IsOk());
  const absl::StatusOr<DecodedGraph> graph = DecodeGraphSpec(Parse(Nop(Nop())), "s1", target);
  ASSERT_THAT(graph, HasReason(reason::kGraphTooLarge));
  EXPECT_EQ(GetErrorDetail(graph.status())->field, "graph.tasks");
  EXPECT_EQ(GetErrorDetail(graph.status())->quota->requested, 2u);
}

TEST(SpecDecoderTest, TooManyTensors) {
  const std::string text = Nop("tensors { name: 'a' dtype: F32 } tensors { name: 'b' dtype: F32 }");
  const GraphTarget target = GraphTestTarget();
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
  const GraphTarget target = GraphTestTarget();
  EXPECT_THAT(DecodeGraphSpec(Parse(text), "s1", target, {.max_edges = 2}), IsOk());
  const absl::StatusOr<DecodedGraph> graph =
      DecodeGraphSpec(Parse(text), "s1", target, {.max_edges = 1});
  ASSERT_THAT(graph, HasReason(reason::kGraphTooLarge));
  EXPECT_EQ(GetErrorDetail(graph.status())->field, "graph.tasks[2].after");
  EXPECT_EQ(GetErrorDetail(graph.status())->quota->usage, 1u);
}

TEST(SpecDecoderTest, LongestNamesAreWell) {
  EXPECT_THAT(Decode(absl::StrCat("tensors { name: '", kLongest, "' dtype: F16 } scalars { name: '",
                                  kLongest, "' value { f64: 1 } } tasks { name: '", kLongest,
                                  "' kernel: 'cube' chip: 'chips/0' args: '", kLongest, "' }")),
              IsOk());
}

}  // namespace
}  // namespace pto
