// Graphs that the decoder rejects, each with the field at fault.

#include <string>
#include <vector>

#include "daemon/graph/spec_decoder.h"
#include "daemon/graph/spec_testing.h"
#include "gtest/gtest.h"
#include "runtime/base/error.h"
#include "runtime/base/status_matchers.h"

namespace pto::daemon {
namespace {

using ::pto::daemon::testing::Decode;
using ::pto::daemon::testing::kX;
using ::pto::daemon::testing::Nop;
using ::pto::daemon::testing::Task;
using ::pto::testing::HasReason;

std::string Tensor(const std::string& fields) { return Nop("tensors { " + fields + " }"); }

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
        // Timeouts.
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
        // Enum values as scalars.
        Bad{Step("scalars { compare: COMPARISON_UNSPECIFIED } scalars { i64: 1 }"),
            &reason::kScalarInvalid, "graph.tasks[1].scalars[0].compare"},
        Bad{Step("scalars { f64: 1 } scalars { compare: 7 }"), &reason::kScalarInvalid,
            "graph.tasks[1].scalars[1].compare"},
        Bad{Step("scalars { f64: 1 } scalars { op: -1 }"), &reason::kScalarInvalid,
            "graph.tasks[1].scalars[1].op"},
        Bad{Nop("scalars { name: 's' value { op: NOTIFY_OP_UNSPECIFIED } }"),
            &reason::kScalarInvalid, "graph.scalars[0].value.op"}}));

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

}  // namespace
}  // namespace pto::daemon
