#include "daemon/graph/packed_decoder.h"

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "runtime/base/error.h"
#include "runtime/base/status_matchers.h"
#include "runtime/graph/graph_testing.h"

namespace pto::daemon {
namespace {

using ::pto::engine::testing::GraphTestTarget;
using ::pto::testing::HasReason;
using ::pto::testing::IsOk;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr uint32_t kMaxBlockTasks = 4;

v1::PackedGraphPart Parse(const std::string& text) {
  v1::PackedGraphPart part;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &part)) << text;
  return part;
}

// Returns the first error of a stream, or the graph.
absl::StatusOr<DecodedGraph> Decode(const std::vector<std::string>& parts) {
  PackedDecoder decoder(GraphTestTarget(), kMaxBlockTasks);
  for (const std::string& text : parts) {
    absl::Status status = decoder.Add(Parse(text));
    if (status.ok()) continue;
    // The error persists.
    EXPECT_EQ(decoder.Add(Parse("commit { }")), status);
    EXPECT_EQ(decoder.Finish().status(), status);
    return status;
  }
  return decoder.Finish();
}

// Kernels: 0 nop, 1 axpy, 2 step, 3 cube, 4 gang.
std::string Header(const std::string& more = "") {
  return R"(header {
    parent: "sessions/s1" id: "run-1"
    kernels: ["nop", "kernels/axpy", "step", "cube", "gang"]
    chips: ["chips/1", "chips/0"]
    buffers: ["a", "sessions/s1/buffers/b"]
    layouts { dtype: F32 shape: [2, 3] }
    layouts { dtype: F16 shape: 4 strides: 2 }
    layouts { dtype: F32 shape: 5 }
    launches { } launches { core: MIX block_num: 7 } )" +
         more + "}";
}

// Tensors: 0 and 1 of a, [2,3] F32; 2 of b, [4] F16; 3 of a, [5] F32.
constexpr char kTensors[] = R"(tensors {
  buffer: [0, 0, 1, 0] layout: [0, 0, 1, 2] offset_delta: [0, 6, -6, 10] })";

std::string Commit(int tasks) { return "commit { task_count: " + std::to_string(tasks) + " }"; }

TEST(PackedDecoderTest, DecodesAGraph) {
  PackedDecoder decoder(GraphTestTarget(), kMaxBlockTasks);
  EXPECT_FALSE(decoder.has_header());
  ASSERT_THAT(decoder.Add(Parse(Header("options { event_level: RUN_ONLY }"))), IsOk());
  EXPECT_TRUE(decoder.has_header());
  EXPECT_EQ(decoder.session(), "s1");
  EXPECT_EQ(decoder.header().id(), "run-1");
  EXPECT_EQ(decoder.header().options().event_level(), v1::RUN_ONLY);
  ASSERT_THAT(decoder.Add(Parse(kTensors)), IsOk());
  ASSERT_THAT(decoder.Add(Parse(R"(tasks {
    first_task: 0 kernel: [0, 1, 2] chip: [0, 1, 1] launch: [0, 1, 0]
    dep_count: [0, 1, 2] dep_back: [1, 1, 2]
    arg_delta: [1, -1, 0, 1]
    scalar: [0x3fe0000000000000, 0x4000000000000000, 0xfffffffffffffffd] })")),
              IsOk());
  // Deltas restart with each chunk, and a chunk may be empty.
  ASSERT_THAT(decoder.Add(Parse("tensors { buffer: 1 layout: 1 offset_delta: 1 }")), IsOk());
  ASSERT_THAT(decoder.Add(Parse("tasks { first_task: 3 }")), IsOk());
  ASSERT_THAT(decoder.Add(Parse("tasks { first_task: 3 kernel: [3, 0] arg_delta: 4 }")), IsOk());
  ASSERT_THAT(decoder.Add(Parse(Commit(5))), IsOk());
  const absl::StatusOr<DecodedGraph> graph = decoder.Finish();
  ASSERT_THAT(graph, IsOk());

  const engine::GraphImage& image = *graph->image;
  ASSERT_EQ(image.task_count(), 5u);
  EXPECT_THAT(image.roots(), ElementsAre(0, 3, 4));
  EXPECT_THAT(image.successors(0), ElementsAre(1, 2));
  EXPECT_THAT(image.successors(1), ElementsAre(2));
  EXPECT_THAT(image.successors(2), IsEmpty());
  EXPECT_EQ(image.tasks()[0].chip, 1);
  EXPECT_EQ(image.tasks()[1].chip, 0);
  EXPECT_EQ(image.tasks()[1].core, PTO_MIX);
  EXPECT_EQ(image.tasks()[1].block_num, 7u);
  EXPECT_EQ(image.tasks()[3].chip, 1);
  EXPECT_THAT(image.args(1), ElementsAre(1, 0, 0));
  EXPECT_THAT(image.args(2), ElementsAre(1));
  EXPECT_THAT(image.args(3), ElementsAre(4));
  EXPECT_THAT(image.scalar_values(),
              ElementsAre(0x3fe0000000000000, 0x4000000000000000, 0xfffffffffffffffd));
  EXPECT_THAT(image.scalar_refs(2), ElementsAre(1, 2));
  EXPECT_THAT(image.scalar_names(), IsEmpty());
  ASSERT_EQ(image.slots().size(), 2u);
  EXPECT_EQ(image.text(image.slots()[0].name), "a");
  EXPECT_EQ(image.slots()[0].min_bytes, 15u * 4);
  EXPECT_EQ(image.slots()[0].largest_tensor, 3u);
  EXPECT_EQ(image.text(image.slots()[1].name), "b");
  EXPECT_EQ(image.slots()[1].min_bytes, (1u + 3 * 2 + 1) * 2);
  EXPECT_EQ(image.slots()[1].largest_tensor, 4u);
  EXPECT_EQ(image.task_name(0), "");
}

struct Bad {
  std::vector<std::string> parts;
  const Reason* reason;
  std::string field;
};

class BadStreamTest : public ::testing::TestWithParam<Bad> {};

TEST_P(BadStreamTest, IsRefusedAtItsField) {
  const absl::StatusOr<DecodedGraph> graph = Decode(GetParam().parts);
  const std::string last = GetParam().parts.empty() ? "" : GetParam().parts.back();
  ASSERT_THAT(graph, HasReason(*GetParam().reason)) << last;
  EXPECT_EQ(GetErrorDetail(graph.status())->field, GetParam().field) << last << graph.status();
}

constexpr char kNops[] = "tasks { kernel: [0, 0] }";

INSTANTIATE_TEST_SUITE_P(
    Order, BadStreamTest,
    ::testing::ValuesIn(std::vector<Bad>{
        Bad{{}, &reason::kStreamEmpty, "header"}, Bad{{Header()}, &reason::kStreamEmpty, "commit"},
        Bad{{Header(), kTensors, kNops}, &reason::kStreamEmpty, "commit"},
        Bad{{Header(), Commit(0)}, &reason::kGraphEmpty, "tasks"},
        Bad{{""}, &reason::kFieldInvalid, "part"},
        Bad{{Header(), ""}, &reason::kFieldInvalid, "part"},
        Bad{{kTensors}, &reason::kStreamOrder, "tensors"},
        Bad{{kNops}, &reason::kStreamOrder, "tasks"},
        Bad{{Commit(0)}, &reason::kStreamOrder, "commit"},
        Bad{{Header(), Header()}, &reason::kStreamOrder, "header"},
        Bad{{Header(), kNops, Header()}, &reason::kStreamOrder, "header"},
        Bad{{Header(), kNops, Commit(2), kNops}, &reason::kStreamOrder, "commit"},
        Bad{{Header(), kNops, Commit(2), Commit(2)}, &reason::kStreamOrder, "commit"},
        Bad{{Header(), kNops, Commit(2), ""}, &reason::kStreamOrder, "commit"},
        Bad{{Header(), kNops, Commit(1)}, &reason::kBlockInvalid, "commit.task_count"},
        Bad{{Header(), kNops, Commit(3)}, &reason::kBlockInvalid, "commit.task_count"}}));

std::string Chips(const std::string& more) {
  return "header { parent: 'sessions/s1' chips: 'chips/0' " + more + "}";
}

INSTANTIATE_TEST_SUITE_P(
    Header, BadStreamTest,
    ::testing::ValuesIn(std::vector<Bad>{
        Bad{{"header { chips: 'chips/0' }"}, &reason::kNameInvalid, "header.parent"},
        Bad{{"header { parent: 's1' chips: 'chips/0' }"}, &reason::kNameInvalid, "header.parent"},
        Bad{{"header { parent: 'sessions/S' chips: 'chips/0' }"},
            &reason::kIdInvalid,
            "header.parent"},
        Bad{{Chips("id: 'Run'")}, &reason::kIdInvalid, "header.id"},
        Bad{{Chips("kernels: ''")}, &reason::kFieldInvalid, "header.kernels[0]"},
        Bad{{Chips("kernels: ['nop', 'none']")}, &reason::kKernelUnknown, "header.kernels[1]"},
        Bad{{"header { parent: 'sessions/s1' }"}, &reason::kFieldInvalid, "header.chips"},
        Bad{{Chips("chips: 'chips/2'")}, &reason::kChipUnknown, "header.chips[1]"},
        Bad{{Chips("chips: 'chips/01'")}, &reason::kNameInvalid, "header.chips[1]"},
        Bad{{Chips("chips: ''")}, &reason::kNameInvalid, "header.chips[1]"},
        Bad{{Chips("buffers: ''")}, &reason::kIdInvalid, "header.buffers[0]"},
        Bad{{Chips("buffers: ['a', 'B']")}, &reason::kIdInvalid, "header.buffers[1]"},
        Bad{{Chips("buffers: 'x/y'")}, &reason::kNameInvalid, "header.buffers[0]"},
        Bad{{Chips("buffers: 'sessions/s2/buffers/a'")},
            &reason::kSessionMismatch,
            "header.buffers[0]"},
        Bad{{Chips("layouts { }")}, &reason::kTensorInvalid, "header.layouts[0].dtype"},
        Bad{{Chips("layouts { dtype: -1 }")}, &reason::kTensorInvalid, "header.layouts[0].dtype"},
        Bad{{Chips("layouts { dtype: 14 }")}, &reason::kTensorInvalid, "header.layouts[0].dtype"},
        Bad{{Chips("layouts { dtype: F32 } layouts { dtype: F32 shape: [1, -1] }")},
            &reason::kTensorInvalid,
            "header.layouts[1].shape[1]"},
        Bad{{Chips("layouts { dtype: F32 shape: [1, 1, 1, 1, 1, 1] }")},
            &reason::kTensorInvalid,
            "header.layouts[0].shape"},
        Bad{{Chips("layouts { dtype: F32 shape: 1 strides: 0 }")},
            &reason::kTensorInvalid,
            "header.layouts[0].strides[0]"},
        Bad{{Chips("layouts { dtype: F32 shape: 1 strides: [1, 1] }")},
            &reason::kTensorInvalid,
            "header.layouts[0].strides"},
        Bad{{Chips("launches { } launches { core: 4 }")},
            &reason::kLaunchInvalid,
            "header.launches[1].core"},
        Bad{{Chips("launches { core: 258 }")}, &reason::kLaunchInvalid, "header.launches[0].core"},
        Bad{{Header("launches { block_num: 49 require_sync_start: true }"),
             "tasks { kernel: 0 launch: 2 }"},
            &reason::kLaunchInvalid,
            "header.launches[2].block_num"},
        Bad{{Chips("launches { } launches { timeout { seconds: -1 } }")},
            &reason::kFieldInvalid,
            "header.launches[1].timeout"},
        Bad{{Chips("launches { timeout { seconds: 315576000001 } }")},
            &reason::kFieldInvalid,
            "header.launches[0].timeout"},
        Bad{{Chips("launches { core: MIX vector_kernels: ['nop', 'none'] }")},
            &reason::kKernelUnknown,
            "header.launches[0].vector_kernels[1]"},
        Bad{{Chips("launches { core: MIX vector_kernels: '' }")},
            &reason::kFieldInvalid,
            "header.launches[0].vector_kernels[0]"},
        Bad{{Header("launches { core: AIC vector_kernels: 'nop' }"),
             "tasks { kernel: 0 launch: 2 }"},
            &reason::kLaunchInvalid,
            "header.launches[2].vector_kernels"},
        Bad{{Header("launches { core: MIX vector_kernels: ['nop', 'cube'] }"),
             "tasks { kernel: 0 launch: 2 }"},
            &reason::kLaunchInvalid,
            "header.launches[2].vector_kernels[1]"},
        Bad{{Header("launches { block_num: 4000000000 }"), "tasks { kernel: 0 launch: 2 }"},
            &reason::kLaunchInvalid,
            "header.launches[2].block_num"},
        Bad{{Header(), "tasks { kernel: [0, 4] }"},
            &reason::kLaunchInvalid,
            "header.launches[0].require_sync_start"},
        Bad{{Chips("kernels: ['nop', 'gang']"), "tasks { kernel: [0, 1] }"},
            &reason::kLaunchInvalid,
            "tasks[block 0].launch[1]"}}));

Bad BadTensors(const std::string& columns, const Reason& reason, const std::string& field) {
  return {
      {Header(), kTensors, "tensors { " + columns + " }"}, &reason, "tensors[block 1]." + field};
}

INSTANTIATE_TEST_SUITE_P(
    Tensors, BadStreamTest,
    ::testing::ValuesIn(std::vector<Bad>{
        BadTensors("buffer: [0, 0] layout: 0 offset_delta: [0, 0]", reason::kBlockInvalid,
                   "layout"),
        BadTensors("buffer: 0 layout: 0", reason::kBlockInvalid, "offset_delta"),
        BadTensors("layout: 0 offset_delta: 0", reason::kBlockInvalid, "layout"),
        BadTensors("offset_delta: 0", reason::kBlockInvalid, "offset_delta"),
        BadTensors("buffer: [0, 2] layout: [0, 0] offset_delta: [0, 0]", reason::kBlockInvalid,
                   "buffer[1]"),
        BadTensors("buffer: [0, 0] layout: [0, 3] offset_delta: [0, 0]", reason::kBlockInvalid,
                   "layout[1]"),
        BadTensors("buffer: [0, 0] layout: [0, 0] offset_delta: [5, -6]", reason::kTensorInvalid,
                   "offset_delta[1]"),
        BadTensors("buffer: 0 layout: 0 offset_delta: 9223372036854775807", reason::kTensorInvalid,
                   "offset_delta[0]"),
        BadTensors("buffer: [0, 0] layout: [0, 0] offset_delta: [1, 9223372036854775807]",
                   reason::kBlockInvalid, "offset_delta[1]"),
        BadTensors("buffer: 0 layout: 0 offset_delta: -9223372036854775808", reason::kTensorInvalid,
                   "offset_delta[0]")}));

// An error in the third chunk of tasks, after four tasks.
Bad BadTasks(const std::string& columns, const Reason& reason, const std::string& field) {
  return {{Header(), kTensors, kNops, "tasks { first_task: 2 kernel: [0, 0] }",
           "tasks { first_task: 4 " + columns + " }"},
          &reason,
          "tasks[block 2]." + field};
}

INSTANTIATE_TEST_SUITE_P(
    Tasks, BadStreamTest,
    ::testing::ValuesIn(std::vector<Bad>{
        BadTasks("kernel: [0, 0, 0, 0, 0]", reason::kBlockInvalid, "kernel"),
        BadTasks("kernel: [0, 5]", reason::kBlockInvalid, "kernel[1]"),
        BadTasks("kernel: [0, 0] chip: 0", reason::kBlockInvalid, "chip"),
        BadTasks("kernel: 0 chip: [0, 0]", reason::kBlockInvalid, "chip"),
        BadTasks("chip: 0", reason::kBlockInvalid, "chip"),
        BadTasks("kernel: [0, 0] chip: [0, 2]", reason::kBlockInvalid, "chip[1]"),
        BadTasks("kernel: [0, 0] launch: 0", reason::kBlockInvalid, "launch"),
        BadTasks("kernel: [0, 0] launch: [0, 2]", reason::kBlockInvalid, "launch[1]"),
        BadTasks("kernel: [0, 0] dep_count: 0", reason::kBlockInvalid, "dep_count"),
        BadTasks("kernel: 0 dep_count: 1", reason::kBlockInvalid, "dep_count[0]"),
        BadTasks("kernel: [0, 0] dep_count: [1, 4294967295] dep_back: [1, 1]",
                 reason::kBlockInvalid, "dep_count[1]"),
        BadTasks("kernel: 0 dep_back: 1", reason::kBlockInvalid, "dep_back[0]"),
        BadTasks("kernel: 0 dep_count: 1 dep_back: [1, 1]", reason::kBlockInvalid, "dep_back[1]"),
        BadTasks("kernel: [0, 0] dep_count: [1, 2] dep_back: [1, 1, 0]", reason::kBlockInvalid,
                 "dep_back[2]"),
        BadTasks("kernel: [0, 0] dep_count: [1, 2] dep_back: [4, 5, 6]", reason::kBlockInvalid,
                 "dep_back[2]"),
        BadTasks("kernel: 0 dep_count: 1 dep_back: 4294967295", reason::kBlockInvalid,
                 "dep_back[0]"),
        BadTasks("kernel: [0, 3]", reason::kBlockInvalid, "arg_delta[0]"),
        BadTasks("kernel: [3, 3] arg_delta: 2", reason::kBlockInvalid, "arg_delta[1]"),
        BadTasks("kernel: 0 arg_delta: 2", reason::kBlockInvalid, "arg_delta[0]"),
        BadTasks("kernel: 3 arg_delta: [2, 0]", reason::kBlockInvalid, "arg_delta[1]"),
        BadTasks("kernel: 3 arg_delta: 4", reason::kBlockInvalid, "arg_delta[0]"),
        BadTasks("kernel: [3, 3] arg_delta: [2, -3]", reason::kBlockInvalid, "arg_delta[1]"),
        BadTasks("kernel: [3, 3] arg_delta: [2, 9223372036854775807]", reason::kBlockInvalid,
                 "arg_delta[1]"),
        BadTasks("kernel: 3 arg_delta: -9223372036854775808", reason::kBlockInvalid,
                 "arg_delta[0]"),
        BadTasks("kernel: 2 arg_delta: 0 scalar: 1", reason::kBlockInvalid, "scalar[1]"),
        BadTasks("kernel: 0 scalar: 1", reason::kBlockInvalid, "scalar[0]"),
        // Errors of the builder, at the column that causes them.
        BadTasks("kernel: [3, 3] arg_delta: [2, -1]", reason::kDtypeUnsupported, "arg_delta[1]"),
        BadTasks("kernel: [3, 1] arg_delta: [2, -2, 1, 2] scalar: 0", reason::kArgumentInvalid,
                 "arg_delta[1]"),
        BadTasks("kernel: [3, 3] chip: [0, 1] arg_delta: [2, 0]", reason::kBufferOnOtherChip,
                 "arg_delta[1]"),
        Bad{{Header(), "tasks { first_task: 1 kernel: 0 }"},
            &reason::kBlockInvalid,
            "tasks[block 0].first_task"},
        Bad{{Header(), kNops, kNops}, &reason::kBlockInvalid, "tasks[block 1].first_task"},
        // Tensors must precede the tasks that use them.
        Bad{{Header(), "tasks { kernel: 3 arg_delta: 0 }", kTensors},
            &reason::kBlockInvalid,
            "tasks[block 0].arg_delta[0]"}}));

// Two tasks, the second with `extra`. `cube` takes tensor 2.
Bad BadExtra(const std::string& kernels, const std::string& extra, const Reason& reason,
             const std::string& field) {
  return BadTasks(kernels + " extras { row: 1 " + extra + " }", reason, "extras[0]." + field);
}

INSTANTIATE_TEST_SUITE_P(
    Extras, BadStreamTest,
    ::testing::ValuesIn(std::vector<Bad>{
        BadTasks("kernel: [0, 0] extras { row: 2 }", reason::kBlockInvalid, "extras[0].row"),
        BadTasks("extras { }", reason::kBlockInvalid, "extras[0].row"),
        BadTasks("kernel: [0, 0] extras { row: 1 } extras { row: 0 }", reason::kBlockInvalid,
                 "extras[1].row"),
        BadTasks("kernel: [0, 0] extras { row: 1 } extras { row: 1 }", reason::kBlockInvalid,
                 "extras[1].row"),
        BadTasks("kernel: [0, 0] extras { row: 1 } extras { row: 4294967295 }",
                 reason::kBlockInvalid, "extras[1].row"),
        // Predicates.
        BadExtra("kernel: [0, 0]", "predicate { tensor: 4 compare: EQ }", reason::kBlockInvalid,
                 "predicate.tensor"),
        BadExtra("kernel: [0, 0]", "predicate { compare: EQ }", reason::kArgumentInvalid,
                 "predicate.tensor"),
        // Arguments without dependencies.
        BadExtra("kernel: [0, 0]", "no_dependency_mask: 1", reason::kBlockInvalid,
                 "no_dependency_mask"),
        BadExtra("kernel: [0, 3] arg_delta: 2", "no_dependency_mask: 3", reason::kBlockInvalid,
                 "no_dependency_mask"),
        // Members.
        BadExtra("kernel: [0, 3]", "members { chip: 2 args: 2 }", reason::kBlockInvalid,
                 "members[0].chip"),
        BadExtra("kernel: [0, 3]", "members { args: 2 } members { chip: 1 args: 4 }",
                 reason::kBlockInvalid, "members[1].args[0]"),
        BadExtra("kernel: [0, 3]", "members { args: 2 } members { args: 2 }",
                 reason::kLaunchInvalid, "members[1].chip"),
        BadExtra("kernel: [0, 3]", "members { args: 2 } members { chip: 1 }",
                 reason::kArgumentCount, "members[1].args"),
        BadExtra("kernel: [0, 3]", "members { args: 2 } members { chip: 1 args: 2 }",
                 reason::kBufferOnOtherChip, "members[1].args[0]"),
        BadExtra("kernel: [0, 3]", "members { args: 0 }", reason::kDtypeUnsupported,
                 "members[0].args[0]"),
        BadTasks("kernel: [0, 0] chip: [0, 1] extras { row: 1 members { } }", reason::kBlockInvalid,
                 "chip[1]"),
        // Members have their own arguments, so the columns must have none.
        BadTasks("kernel: [0, 3] arg_delta: 2 extras { row: 1 members { args: 2 } }",
                 reason::kBlockInvalid, "arg_delta[0]"),
        Bad{{Header("kernels: 'join'"), "tasks { kernel: 5 extras { members { } } }"},
            &reason::kLaunchInvalid,
            "tasks[block 0].extras[0].members"}}));

TEST(PackedDecoderTest, DecodesExtras) {
  const absl::StatusOr<DecodedGraph> graph =
      Decode({Header("layouts { dtype: I32 } buffers: 'w' kernels: 'notify' "
                     "launches { core: MIX timeout { nanos: 9 } vector_kernels: ['nop', 'nop'] }"),
              kTensors, "tensors { buffer: [0, 2] layout: [1, 3] offset_delta: [20, -20] }",
              "tasks { kernel: [0, 3, 0] launch: [2, 0, 0] extras { row: 1 "
              "members { chip: 1 args: 4 } members { args: 2 } no_dependency_mask: 1 } "
              "extras { row: 2 predicate { tensor: 5 compare: LT value: 8 } } }",
              "tasks { first_task: 3 kernel: 5 arg_delta: 5 scalar: [1, 7] }", Commit(4)});
  ASSERT_THAT(graph, IsOk());
  const engine::GraphImage& image = *graph->image;
  ASSERT_NE(image.detail(0), nullptr);
  EXPECT_EQ(image.detail(0)->timeout_ns, 9);
  EXPECT_STREQ(image.kernel_info(image.detail(0)->vector_kernels[1]).name, "nop");
  ASSERT_NE(image.detail(1), nullptr);
  EXPECT_THAT(image.members(*image.detail(1)), ElementsAre(0, 1));
  EXPECT_THAT(image.args(1, 0), ElementsAre(4));
  EXPECT_THAT(image.args(1, 1), ElementsAre(2));
  EXPECT_EQ(image.detail(1)->no_dependency_args, 1u);
  ASSERT_NE(image.detail(2), nullptr);
  EXPECT_EQ(image.detail(2)->predicate_tensor, 5u);
  EXPECT_EQ(image.detail(2)->predicate_compare, static_cast<uint32_t>(PTO_LT));
  EXPECT_EQ(image.detail(2)->predicate_value, 8);
  EXPECT_EQ(image.tasks()[3].traits, engine::kTaskControl);
  EXPECT_THAT(image.args(3), ElementsAre(5));
}

TEST(PackedDecoderTest, OnlyNamedDependenciesIfWanted) {
  const std::string tasks =
      "tasks { kernel: [3, 3, 0] arg_delta: [2, 0] dep_count: [0, 0, 1] "
      "dep_back: 2 }";
  EXPECT_THAT(Decode({Header(), kTensors, tasks, Commit(3)})->image->successors(0),
              ElementsAre(1, 2));
  EXPECT_THAT(Decode({Header("explicit_dependencies_only: true"), kTensors, tasks, Commit(3)})
                  ->image->successors(0),
              ElementsAre(2));
}

TEST(PackedDecoderTest, ErrorsSayBlockAndRow) {
  const Bad bad = BadTasks("kernel: [3, 3] arg_delta: [2, -3]", reason::kBlockInvalid, "");
  const absl::StatusOr<DecodedGraph> graph = Decode(bad.parts);
  using Pair = std::pair<std::string, std::string>;
  EXPECT_THAT(GetErrorDetail(graph.status())->metadata,
              ::testing::IsSupersetOf({Pair("block", "2"), Pair("row", "1")}));
  const Bad built = BadTasks("kernel: [3, 3] arg_delta: [2, -1]", reason::kBlockInvalid, "");
  const absl::StatusOr<DecodedGraph> other = Decode(built.parts);
  EXPECT_THAT(GetErrorDetail(other.status())->metadata,
              ::testing::IsSupersetOf({Pair("block", "2"), Pair("row", "1"), Pair("task", "5")}));
  const Bad extra = BadExtra("kernel: [0, 0]", "no_dependency_mask: 1", reason::kBlockInvalid, "");
  EXPECT_THAT(GetErrorDetail(Decode(extra.parts).status())->metadata,
              ::testing::IsSupersetOf({Pair("block", "2"), Pair("row", "1")}));
}

TEST(PackedDecoderTest, EndsWhenTheClientHasGone) {
  constexpr uint32_t kMany = 1024;
  bool gone = false;
  PackedDecoder decoder(GraphTestTarget(), kMany, {}, [&gone] { return gone; });
  ASSERT_THAT(decoder.Add(Parse(Header())), IsOk());
  const auto add = [&](uint32_t block) {
    v1::PackedGraphPart part;
    part.mutable_tasks()->set_first_task(block * kMany);
    for (uint32_t i = 0; i < kMany; ++i) part.mutable_tasks()->add_kernel(0);
    return decoder.Add(part);
  };
  ASSERT_THAT(add(0), IsOk());
  gone = true;
  absl::Status status;
  for (uint32_t block = 1; status.ok() && block < 64; ++block) status = add(block);
  EXPECT_THAT(status, HasReason(reason::kClientGone));
}

TEST(PackedDecoderTest, TooManyTasks) {
  engine::GraphTarget target = GraphTestTarget();
  target.max_tasks = 3;
  PackedDecoder decoder(target, kMaxBlockTasks);
  ASSERT_THAT(decoder.Add(Parse(Header())), IsOk());
  ASSERT_THAT(decoder.Add(Parse(kNops)), IsOk());
  const absl::Status status = decoder.Add(Parse("tasks { first_task: 2 kernel: [0, 0] }"));
  ASSERT_THAT(status, HasReason(reason::kGraphTooLarge));
  EXPECT_EQ(GetErrorDetail(status)->field, "tasks[block 1].kernel");
  EXPECT_EQ(GetErrorDetail(status)->quota->usage, 2u);
}

TEST(PackedDecoderTest, TooManyTensors) {
  PackedDecoder decoder(GraphTestTarget(), kMaxBlockTasks, {.max_tensors = 7});
  ASSERT_THAT(decoder.Add(Parse(Header())), IsOk());
  ASSERT_THAT(decoder.Add(Parse(kTensors)), IsOk());
  const absl::Status status = decoder.Add(Parse(kTensors));
  ASSERT_THAT(status, HasReason(reason::kGraphTooLarge));
  const absl::optional<ErrorDetail> detail = GetErrorDetail(status);
  EXPECT_EQ(detail->field, "tensors[block 1].buffer");
  EXPECT_EQ(detail->quota->limit, 7u);
  EXPECT_EQ(detail->quota->usage, 4u);
  EXPECT_EQ(detail->quota->requested, 4u);
}

TEST(PackedDecoderTest, TooManyEdges) {
  PackedDecoder decoder(GraphTestTarget(), kMaxBlockTasks, {.max_edges = 3});
  ASSERT_THAT(decoder.Add(Parse(Header())), IsOk());
  ASSERT_THAT(
      decoder.Add(Parse("tasks { kernel: [0, 0, 0] dep_count: [0, 1, 1] dep_back: [1, 1] }")),
      IsOk());
  const absl::Status status = decoder.Add(
      Parse("tasks { first_task: 3 kernel: [0, 0] dep_count: [1, 1] dep_back: [1, 1] }"));
  ASSERT_THAT(status, HasReason(reason::kGraphTooLarge));
  const absl::optional<ErrorDetail> detail = GetErrorDetail(status);
  EXPECT_EQ(detail->field, "tasks[block 1].dep_back");
  EXPECT_EQ(detail->quota->limit, 3u);
  EXPECT_EQ(detail->quota->usage, 2u);
  EXPECT_EQ(detail->quota->requested, 2u);
}

TEST(PackedDecoderTest, OneLaunchIsThereByDefault) {
  const absl::StatusOr<DecodedGraph> graph =
      Decode({Chips("kernels: 'nop'"), "tasks { kernel: 0 launch: 0 }", Commit(1)});
  ASSERT_THAT(graph, IsOk());
  EXPECT_EQ(graph->image->tasks()[0].block_num, 1u);
  EXPECT_THAT(Decode({Chips("kernels: 'nop'"), "tasks { kernel: 0 launch: 1 }"}),
              HasReason(reason::kBlockInvalid));
}

TEST(PackedDecoderTest, ABufferNamedTwiceIsOneSlot) {
  const absl::StatusOr<DecodedGraph> graph =
      Decode({Chips("kernels: 'cube' buffers: ['a', 'sessions/s1/buffers/a'] "
                    "layouts { dtype: F16 }"),
              "tensors { buffer: [0, 1] layout: [0, 0] offset_delta: [0, 3] }",
              "tasks { kernel: [0, 0] arg_delta: [0, 1] }", Commit(2)});
  ASSERT_THAT(graph, IsOk());
  ASSERT_EQ(graph->image->slots().size(), 1u);
  EXPECT_EQ(graph->image->slots()[0].min_bytes, 8u);
}

}  // namespace
}  // namespace pto::daemon
