#include "runtime/host/message.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "kernels/domain_scalar.h"
#include "runtime/base/error.h"
#include "runtime/base/status_matchers.h"
#include "runtime/host/control_block.h"

namespace pto::host {
namespace {

using ::pto::testing::HasReason;
using ::pto::testing::IsOk;

template <typename T>
absl::Span<const std::byte> BytesOf(const T& value) {
  return absl::MakeConstSpan(reinterpret_cast<const std::byte*>(&value), sizeof value);
}

PostMessage SmallPost() {
  PostMessage head;
  head.id = 77;
  head.slot = 3;
  head.block_end = 1;
  head.member_count = 2;
  head.tensor_count = 1;
  head.scalar_count = 2;
  return head;
}

TEST(MessageTest, APostIsReadAsItWasWritten) {
  const PostMessage head = SmallPost();
  const pto_scalar scalars[] = {{.f64 = 1.5}, {.i64 = 9}};
  std::vector<TensorMessage> tensors(2);
  tensors[1].region = 4;
  tensors[1].offset = 64;
  tensors[1].ndim = 1;
  tensors[1].shape[0] = 8;
  std::vector<std::byte> bytes;
  EncodePost(head, scalars, tensors, &bytes);
  PostView post;
  ASSERT_THAT(ParsePost(bytes, &post), IsOk());
  EXPECT_EQ(post.head.id, 77u);
  EXPECT_EQ(post.scalars[0].f64, 1.5);
  EXPECT_EQ(post.scalars[1].i64, 9);
  ASSERT_EQ(post.tensors.size(), 2u);
  EXPECT_EQ(post.tensors[1].offset, 64u);
  EXPECT_EQ(post.tensors[1].shape[0], 8);
  // Each shorter one is refused, and a longer one.
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_THAT(ParsePost(absl::MakeConstSpan(bytes.data(), size), &post),
                HasReason(reason::kHostLost))
        << size;
  }
  bytes.push_back(std::byte{0});
  EXPECT_THAT(ParsePost(bytes, &post), HasReason(reason::kHostLost));
}

TEST(MessageTest, APostOutOfRangeIsRefused) {
  const auto parse = [](const PostMessage& head) {
    PostView post;
    return ParsePost(BytesOf(head), &post);
  };
  PostMessage head;
  head.member_count = head.block_end = 1;
  EXPECT_THAT(parse(head), IsOk());
  head.slot = kMaxPosts;
  EXPECT_THAT(parse(head), HasReason(reason::kHostLost));
  head.slot = 0;
  head.member = 1;
  EXPECT_THAT(parse(head), HasReason(reason::kHostLost));
  head.member = 0;
  head.block = 1;
  EXPECT_THAT(parse(head), HasReason(reason::kHostLost));
  head.block = 0;
  // Nothing is allocated for tensors that are not there.
  head.tensor_count = PTO_MAX_ARGS;
  head.member_count = 0xffffffff;
  EXPECT_THAT(parse(head), HasReason(reason::kHostLost));
}

TEST(MessageTest, AReportIsReadAsItWasWritten) {
  Report report;
  report.slot = 5;
  report.id = 1234;
  report.result = -3;
  report.block = 2;
  report.text = "bad\nnews\x01";
  std::vector<std::byte> bytes;
  EncodeReport(report, &bytes);
  absl::StatusOr<Report> read = ParseReport(bytes);
  ASSERT_THAT(read, IsOk());
  EXPECT_EQ(read->id, 1234u);
  EXPECT_EQ(read->result, -3);
  EXPECT_EQ(read->text, "bad news");

  report.text = std::string(5000, 'x');
  bytes.clear();
  EncodeReport(report, &bytes);
  read = ParseReport(bytes);
  ASSERT_THAT(read, IsOk());
  EXPECT_EQ(read->text.size(), kMaxText);
}

TEST(MessageTest, AMalformedReportIsRefused) {
  std::vector<std::byte> bytes;
  EncodeReport(Report(), &bytes);
  EXPECT_THAT(ParseReport(bytes), IsOk());
  EXPECT_THAT(ParseReport(absl::MakeConstSpan(bytes.data(), bytes.size() - 1)),
              HasReason(reason::kHostLost));
  std::vector<std::byte> wrong = bytes;
  wrong[0] = std::byte{9};  // the kind
  EXPECT_THAT(ParseReport(wrong), HasReason(reason::kHostLost));
  wrong = bytes;
  wrong[6] = std::byte{1};  // the slot
  EXPECT_THAT(ParseReport(wrong), HasReason(reason::kHostLost));
  bytes.resize(bytes.size() + kMaxText + 1);
  EXPECT_THAT(ParseReport(bytes), HasReason(reason::kHostLost));
}

TEST(MessageTest, ACallIsReadAsItWasWritten) {
  Report report;
  report.kind = Report::kCall;
  report.slot = 5;
  report.id = 1234;
  report.call.emplace();
  report.call->kind = CallMessage::kCopy;
  report.call->number = 9;
  report.call->signal_region = 3;
  report.call->signal_offset = 80;
  report.call->value = -7;
  report.tensors.resize(2);
  report.tensors[1].offset = 64;
  report.tensors[1].ndim = 2;
  std::vector<std::byte> bytes;
  EncodeReport(report, &bytes);
  const absl::StatusOr<Report> read = ParseReport(bytes);
  ASSERT_THAT(read, IsOk());
  EXPECT_EQ(read->id, 1234u);
  ASSERT_TRUE(read->call.has_value());
  EXPECT_EQ(read->call->number, 9u);
  EXPECT_EQ(read->call->signal_region, 3u);
  EXPECT_EQ(read->call->signal_offset, 80u);
  EXPECT_EQ(read->call->value, -7);
  ASSERT_EQ(read->tensors.size(), 2u);
  EXPECT_EQ(read->tensors[1].offset, 64u);
  // Each shorter one is refused, and a longer one.
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_THAT(ParseReport(absl::MakeConstSpan(bytes.data(), size)), HasReason(reason::kHostLost))
        << size;
  }
  bytes.push_back(std::byte{0});
  EXPECT_THAT(ParseReport(bytes), HasReason(reason::kHostLost));
}

TEST(MessageTest, AMalformedCallIsRefused) {
  const auto parse = [](const Report& report) {
    std::vector<std::byte> bytes;
    EncodeReport(report, &bytes);
    return ParseReport(bytes);
  };
  Report report;
  report.kind = Report::kCall;
  report.call.emplace();
  EXPECT_THAT(parse(report), IsOk());
  report.call->kind = CallMessage::kDeferCopy + 1;
  EXPECT_THAT(parse(report), HasReason(reason::kHostLost));
  report.call->kind = CallMessage::kCopy;
  EXPECT_THAT(parse(report), HasReason(reason::kHostLost)) << "without its tensors";
  report.tensors.resize(2);
  EXPECT_THAT(parse(report), IsOk());
  report.tensors[0].ndim = PTO_MAX_DIMS + 1;
  EXPECT_THAT(parse(report), HasReason(reason::kHostLost));
  report.tensors[0].ndim = 1;
  report.call->kind = CallMessage::kWait;
  EXPECT_THAT(parse(report), HasReason(reason::kHostLost)) << "with tensors that it has not";
}

TEST(MessageTest, TextsOfAnswersEnd) {
  AnswerMessage answer;
  std::memset(answer.text, 'x', sizeof answer.text);
  std::memset(answer.description.name, 'x', sizeof answer.description.name);
  std::memset(answer.sandbox.items[9].detail, 'x', sizeof answer.sandbox.items[9].detail);
  const absl::StatusOr<AnswerMessage> read = ParseAnswer(BytesOf(answer));
  ASSERT_THAT(read, IsOk());
  EXPECT_EQ(std::strlen(read->text), sizeof answer.text - 1);
  EXPECT_EQ(std::strlen(read->description.name), sizeof answer.description.name - 1);
}

TEST(MessageTest, AMalformedAnswerIsRefused) {
  AnswerMessage answer;
  EXPECT_THAT(ParseAnswer(BytesOf(answer).subspan(1)), HasReason(reason::kHostLost));
  answer.kind = static_cast<AnswerMessage::Kind>(7);
  EXPECT_THAT(ParseAnswer(BytesOf(answer)), HasReason(reason::kHostLost));
  answer.kind = AnswerMessage::kReady;
  answer.sandbox.count = SandboxReport::kMaxItems + 1;
  EXPECT_THAT(ParseAnswer(BytesOf(answer)), HasReason(reason::kHostLost));
  answer.sandbox.count = 0;
  answer.description.argument_count = PTO_MAX_ARGS + 1;
  EXPECT_THAT(ParseAnswer(BytesOf(answer)), HasReason(reason::kHostLost));
  answer.description.argument_count = 1;
  answer.kind = AnswerMessage::kLoaded;
  answer.description.default_core = PTO_AIV;
  answer.description.arguments[0].direction = 77;
  EXPECT_THAT(ParseAnswer(BytesOf(answer)), HasReason(reason::kHostLost));
}

TEST(MessageTest, AnOrderIsReadAsItWasWritten) {
  Order order;
  order.head.kind = OrderMessage::kLoad;
  order.head.number = 12;
  order.head.abi = HostAbi::kPto;
  SetText(absl::MakeSpan(order.head.entry), std::string(1000, 'e'));
  order.signature = "in f32[]";
  order.ranks = {{.chip = 3, .region = 4, .offset = 64, .bytes = 128}};
  std::vector<std::byte> bytes;
  EncodeOrder(order, &bytes);
  const absl::StatusOr<Order> read = ParseOrder(bytes);
  ASSERT_THAT(read, IsOk());
  EXPECT_EQ(read->head.number, 12u);
  EXPECT_EQ(std::strlen(read->head.entry), OrderMessage::kMaxName);
  EXPECT_EQ(read->signature, "in f32[]");
  ASSERT_EQ(read->ranks.size(), 1u);
  EXPECT_EQ(read->ranks[0].chip, 3u);
  EXPECT_EQ(read->ranks[0].bytes, 128u);
  // Each shorter one is refused, and a longer one.
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_THAT(ParseOrder(absl::MakeConstSpan(bytes.data(), size)), HasReason(reason::kHostLost))
        << size;
  }
  bytes.push_back(std::byte{0});
  EXPECT_THAT(ParseOrder(bytes), HasReason(reason::kHostLost));
}

TEST(MessageTest, AnOrderOutOfRangeIsRefused) {
  const auto parse = [](const OrderMessage& head) { return ParseOrder(BytesOf(head)); };
  OrderMessage head;
  EXPECT_THAT(parse(head), IsOk());
  for (const uint32_t kind : {0u, 9u}) {
    head.kind = static_cast<OrderMessage::Kind>(kind);
    EXPECT_THAT(parse(head), HasReason(reason::kHostLost));
  }
  head = OrderMessage();
  head.abi = static_cast<HostAbi>(3);
  EXPECT_THAT(parse(head), HasReason(reason::kHostLost));
  // Nothing is allocated for what is not there.
  head = OrderMessage();
  head.signature_bytes = 0xffffffff;
  EXPECT_THAT(parse(head), HasReason(reason::kHostLost));
  head = OrderMessage();
  head.rank_count = 0xffffffff;
  EXPECT_THAT(parse(head), HasReason(reason::kHostLost));
}

TEST(MessageTest, OnlyKernelsOfThePtoAbiHaveDomains) {
  AnswerMessage answer;
  answer.kind = AnswerMessage::kLoaded;
  answer.description.default_core = PTO_AIV;
  answer.description.scalar_count = 1;
  answer.description.scalars[0].type = kDomainScalar;
  EXPECT_THAT(ParseAnswer(BytesOf(answer)), HasReason(reason::kHostLost));
  answer.description.abi = HostAbi::kPto;
  EXPECT_THAT(ParseAnswer(BytesOf(answer)), IsOk());
  answer.description.abi = static_cast<HostAbi>(7);
  EXPECT_THAT(ParseAnswer(BytesOf(answer)), HasReason(reason::kHostLost));
}

int32_t Nothing(const pto_context*) { return 0; }

TEST(MessageTest, AKernelIsDescribed) {
  const pto_argument_info arguments[] = {{"x", PTO_INPUT, PTO_DTYPE_BIT(PTO_F32)},
                                         {"y", PTO_OUTPUT, PTO_DTYPE_BIT(PTO_F32)}};
  const pto_overlap_info overlaps[] = {{0, 0}, {PTO_ARGUMENT_BIT(0), 0}};
  const pto_scalar_info scalars[] = {{"alpha", PTO_FLOAT}};
  pto_kernel_info info = {};
  info.struct_size = sizeof info;
  info.name = "axpy";
  info.description = "Adds.";
  info.function = &Nothing;
  info.default_core = PTO_AIV;
  info.arguments = arguments;
  info.argument_count = 2;
  info.scalars = scalars;
  info.scalar_count = 1;
  info.overlaps = overlaps;
  const absl::StatusOr<KernelDescription> described = Describe(info);
  ASSERT_THAT(described, IsOk());
  EXPECT_STREQ(described->name, "axpy");
  EXPECT_STREQ(described->arguments[1].name, "y");
  EXPECT_EQ(described->arguments[1].same, 1u);
  EXPECT_EQ(described->scalars[0].type, static_cast<uint32_t>(PTO_FLOAT));
  info.name = "No";
  EXPECT_THAT(Describe(info), HasReason(reason::kFieldInvalid));
}

}  // namespace
}  // namespace pto::host
