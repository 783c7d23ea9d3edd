#include "runtime/chip/ascend/wire.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/types/optional.h"
#include "runtime/base/error.h"
#include "runtime/base/status_matchers.h"

namespace pto::ascend {
namespace {

using ::pto::testing::HasReason;
using ::pto::testing::IsOk;

TEST(WireTest, ARequestComesThrough) {
  Request request;
  request.kind = Request::kLaunch;
  request.id = 7;
  request.kernel = 3;
  request.blocks = 4;
  request.together = 1;
  request.timeout_ns = 99;
  request.epoch = 12;
  request.target = 34;
  request.tensors.resize(2);
  request.tensors[1].buffer_address = 0x1234;
  request.scalars = {5, -6};
  std::vector<std::byte> bytes;
  Encode(request, &bytes);
  const absl::StatusOr<Request> back = ParseRequest(bytes);
  ASSERT_THAT(back, IsOk());
  EXPECT_EQ(back->id, 7u);
  EXPECT_EQ(back->blocks, 4u);
  EXPECT_EQ(back->timeout_ns, 99);
  EXPECT_EQ(back->epoch, 12u);
  EXPECT_EQ(back->target, 34u);
  EXPECT_EQ(back->tensors[1].buffer_address, 0x1234u);
  EXPECT_EQ(back->scalars, request.scalars);
}

TEST(WireTest, AReplyKeepsReasonAndText) {
  Reply reply;
  reply.id = 9;
  reply.status = Error(reason::kChipMemoryExhausted, "no\nroom");
  std::vector<std::byte> bytes;
  Encode(reply, &bytes);
  const absl::StatusOr<Reply> back = ParseReply(bytes);
  ASSERT_THAT(back, IsOk());
  EXPECT_EQ(back->id, 9u);
  EXPECT_THAT(back->status, HasReason(reason::kChipMemoryExhausted));
  EXPECT_EQ(back->status.message(), "no room");
}

TEST(WireTest, AnErrorKeepsItsClassAndHint) {
  Reply reply;
  reply.status = Error(reason::kDeviceFailed, "x")
                     .With("code", 507015)
                     .With("class", "kernel")
                     .With("vendor", "EZ9999: a = b\nand more")
                     .With("principal", "root")
                     .Hint("look there");
  std::vector<std::byte> bytes;
  Encode(reply, &bytes);
  const absl::Status status = ParseReply(bytes)->status;
  EXPECT_EQ(status.message(), "x");
  const absl::optional<ErrorDetail> detail = GetErrorDetail(status);
  ASSERT_TRUE(detail.has_value());
  EXPECT_EQ(detail->hint, "look there");
  using Pair = std::pair<std::string, std::string>;
  EXPECT_THAT(detail->metadata,
              ::testing::UnorderedElementsAre(Pair("code", "507015"), Pair("class", "kernel"),
                                              Pair("vendor", "EZ9999: a = b and more")));
}

TEST(WireTest, AHostCannotInventReasons) {
  Reply reply;
  reply.status = Error(reason::kPermissionDenied, "x");
  std::vector<std::byte> bytes;
  Encode(reply, &bytes);
  EXPECT_THAT(ParseReply(bytes)->status, HasReason(reason::kDeviceFailed));
}

TEST(WireTest, WhatIsCutIsRefused) {
  Request request;
  request.kind = Request::kLaunch;
  request.tensors.resize(1);
  std::vector<std::byte> bytes;
  Encode(request, &bytes);
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(ParseRequest(absl::MakeConstSpan(bytes.data(), size)).ok()) << size;
  }
  request.kind = Request::kWrite;
  request.slot = kSlots;
  bytes.clear();
  Encode(request, &bytes);
  EXPECT_FALSE(ParseRequest(bytes).ok());
  request.kind = 99;
  bytes.clear();
  Encode(request, &bytes);
  EXPECT_FALSE(ParseRequest(bytes).ok());
  EXPECT_FALSE(ParseReply({}).ok());
}

}  // namespace
}  // namespace pto::ascend
