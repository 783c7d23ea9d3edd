#include "daemon/graph/open_decoder.h"

#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "kernels/builtin_kernels.h"
#include "runtime/base/error.h"
#include "runtime/base/status_matchers.h"

namespace pto::daemon {
namespace {

using ::pto::testing::HasReason;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

engine::GraphTarget Target() {
  engine::GraphTarget target;
  target.kernels = &BuiltinKernels();
  target.chip_clusters = {2, 2};
  return target;
}

v1::StreamRunBlock Block(const std::string& text) {
  v1::StreamRunBlock block;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &block)) << text;
  return block;
}

MATCHER_P(At, field, "") { return GetErrorDetail(arg.status())->field == field; }
MATCHER_P2(With, key, value, "") {
  return ::testing::Value(GetErrorDetail(arg.status())->metadata,
                          Contains(Pair(std::string(key), std::string(value))));
}
MATCHER_P2(LinkIs, task, before, "") { return arg.task == task && arg.before == before; }

class OpenDecoderTest : public ::testing::Test {
 protected:
  // Fills the whole buffer `x`.
  static constexpr char kFirst[] = R"(
      kernels: "fill" chips: "chips/0" buffers: "x" layouts { dtype: F32 shape: 4 }
      tensors { buffer: 0 layout: 0 offset_delta: 0 }
      tasks { kernel: 0 arg_delta: 0 scalar: 0 })";

  static OpenDecoder::Options MakeOptions() {
    OpenDecoder::Options options;
    options.session = "s";
    options.max_block_tasks = 4;
    options.find_buffer =
        [](absl::string_view id) -> absl::StatusOr<engine::OpenGraph::SlotMemory> {
      if (id == "x") return engine::OpenGraph::SlotMemory{0, 64};
      if (id == "far") return engine::OpenGraph::SlotMemory{1, 64};
      return Error(reason::kBufferUnknown, "not there");
    };
    return options;
  }

  OpenDecoder decoder_{Target(), MakeOptions()};
};

TEST_F(OpenDecoderTest, BlocksReferToWhatCameBefore) {
  const auto first = decoder_.Add(Block(kFirst));
  ASSERT_TRUE(first.ok()) << first.status();
  ASSERT_TRUE(first->has_value());
  EXPECT_EQ((*first)->first_task, 0u);
  EXPECT_EQ((*first)->image->task_count(), 1u);
  // Dependencies by tensor, and by number.
  const auto second = decoder_.Add(Block(R"(
      kernels: "join" tasks { first_task: 1 kernel: 0 kernel: 1
                              arg_delta: 0 scalar: 0 dep_count: 0 dep_count: 1 dep_back: 2 })"));
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_THAT((*second)->links, ElementsAre(LinkIs(0u, 0u), LinkIs(1u, 0u)));
  EXPECT_EQ(decoder_.tasks(), 3u);
  EXPECT_EQ(decoder_.blocks(), 2u);
}

TEST_F(OpenDecoderTest, ABlockNeedsNoTasks) {
  const auto empty = decoder_.Add(Block(R"(kernels: "join" chips: "chips/0")"));
  ASSERT_TRUE(empty.ok());
  EXPECT_FALSE(empty->has_value());
  const auto tasks = decoder_.Add(Block("tasks { kernel: 0 }"));
  ASSERT_TRUE(tasks.ok()) << tasks.status();
  EXPECT_EQ((*tasks)->image->task_count(), 1u);
}

TEST_F(OpenDecoderTest, WhatHasEndedIsNotWaitedFor) {
  ASSERT_TRUE(decoder_.Add(Block(kFirst)).ok());
  decoder_.ForgetBefore(1);
  const auto second = decoder_.Add(
      Block("tasks { first_task: 1 kernel: 0 arg_delta: 0 scalar: 0 dep_count: 1 dep_back: 1 }"));
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_THAT((*second)->links, IsEmpty());
}

TEST_F(OpenDecoderTest, ErrorsNameBlockTaskAndField) {
  ASSERT_TRUE(decoder_.Add(Block(kFirst)).ok());
  const auto back = decoder_.Add(Block(
      R"(tasks { first_task: 1 kernel: 0 kernel: 0 arg_delta: 0 arg_delta: 0 scalar: 0 scalar: 0
                 dep_count: 0 dep_count: 1 dep_back: 3 })"));
  EXPECT_THAT(back, HasReason(reason::kBlockInvalid));
  EXPECT_THAT(back, At("blocks[1].tasks.dep_back[0]"));
  EXPECT_THAT(back, With("block", "1"));
  EXPECT_THAT(back, With("task", "2"));
}

TEST_F(OpenDecoderTest, WrongBlocksAreRefused) {
  const struct {
    std::string block;
    const Reason& reason;
    std::string field;
  } cases[] = {
      {R"(kernels: "nonsense")", reason::kKernelUnknown, "blocks[1].kernels[0]"},
      {R"(chips: "chips/99")", reason::kChipUnknown, "blocks[1].chips[0]"},
      {R"(buffers: "sessions/t/buffers/x")", reason::kSessionMismatch, "blocks[1].buffers[0]"},
      {R"(buffers: "gone")", reason::kBufferUnknown, "blocks[1].buffers[0]"},
      {"layouts { dtype: F32 shape: -1 }", reason::kTensorInvalid, "blocks[1].layouts[0].shape[0]"},
      {"launches { core: 77 }", reason::kLaunchInvalid, "blocks[1].launches[0].core"},
      {"tensors { buffer: 0 layout: 0 offset_delta: 13 }", reason::kTensorOutOfBounds,
       "blocks[1].tensors.offset_delta[0]"},
      {"tensors { buffer: 7 layout: 0 offset_delta: 0 }", reason::kBlockInvalid,
       "blocks[1].tensors.buffer[0]"},
      {"tasks { kernel: 0 arg_delta: 0 scalar: 0 }", reason::kBlockInvalid,
       "blocks[1].tasks.first_task"},
      {"tasks { first_task: 1 kernel: 5 }", reason::kBlockInvalid, "blocks[1].tasks.kernel[0]"},
      {"tasks { first_task: 1 kernel: 0 launch: 1 arg_delta: 0 scalar: 0 }", reason::kBlockInvalid,
       "blocks[1].tasks.launch[0]"},
      {"tasks { first_task: 1 kernel: 0 kernel: 0 kernel: 0 kernel: 0 kernel: 0 }",
       reason::kBlockInvalid, "blocks[1].tasks.kernel"},
      {R"(buffers: "far" tensors { buffer: 1 layout: 0 offset_delta: 0 }
          tasks { first_task: 1 kernel: 0 arg_delta: 1 scalar: 0 })",
       reason::kBufferOnOtherChip, "blocks[1].tasks.arg_delta[0]"},
  };
  for (const auto& wrong : cases) {
    OpenDecoder decoder(Target(), MakeOptions());
    ASSERT_TRUE(decoder.Add(Block(kFirst)).ok());
    const auto refused = decoder.Add(Block(wrong.block));
    EXPECT_THAT(refused, HasReason(wrong.reason)) << wrong.block;
    if (refused.ok()) continue;
    EXPECT_THAT(refused, At(wrong.field)) << wrong.block;
    EXPECT_THAT(refused, With("block", "1")) << wrong.block;
  }
}

TEST_F(OpenDecoderTest, NoTaskHasMoreTimeThanTheRun) {
  OpenDecoder::Options options = MakeOptions();
  options.run_timeout_ns = 1'000'000'000;
  OpenDecoder decoder(Target(), std::move(options));
  const auto refused = decoder.Add(Block("launches { timeout { seconds: 2 } }"));
  EXPECT_THAT(refused, HasReason(reason::kFieldInvalid));
  EXPECT_THAT(refused, At("blocks[0].launches[0].timeout"));
}

}  // namespace
}  // namespace pto::daemon
