#include "proto/broker/message.h"

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/error.h"
#include "runtime/base/status_matchers.h"

namespace pto::broker {
namespace {

using ::pto::testing::HasReason;
using ::pto::testing::IsOk;

Request Attach() {
  Request request;
  request.op = Op::kAttach;
  request.number = 7;
  request.key.fill('k');
  request.name = "s-1";
  return request;
}

Request Map() {
  Request request;
  request.op = Op::kMap;
  request.number = UINT64_MAX;
  request.name = std::string(kMaxNameBytes, 'x');
  return request;
}

Request Check() {
  Request request;
  request.op = Op::kCheck;
  request.region = 1;
  return request;
}

Reply Mapped() {
  Reply reply;
  reply.op = Op::kMap;
  reply.number = 9;
  reply.region = UINT64_MAX;
  reply.bytes = 4096;
  return reply;
}

TEST(MessageTest, RequestsComeBackAsTheyWere) {
  for (const Request& request : {Attach(), Map(), Check()}) {
    const RequestBytes bytes = Encode(request);
    const absl::StatusOr<Request> parsed = ParseRequest(bytes);
    ASSERT_THAT(parsed, IsOk());
    EXPECT_EQ(parsed->op, request.op);
    EXPECT_EQ(parsed->number, request.number);
    EXPECT_EQ(parsed->region, request.region);
    EXPECT_EQ(parsed->key, request.key);
    EXPECT_EQ(parsed->name, request.name);
  }
}

TEST(MessageTest, RepliesComeBackAsTheyWere) {
  Reply refused;
  refused.op = Op::kMap;
  refused.outcome = Outcome::kLimit;
  for (const Reply& reply : {Mapped(), refused}) {
    const absl::StatusOr<Reply> parsed = ParseReply(Encode(reply));
    ASSERT_THAT(parsed, IsOk());
    EXPECT_EQ(parsed->op, reply.op);
    EXPECT_EQ(parsed->number, reply.number);
    EXPECT_EQ(parsed->outcome, reply.outcome);
    EXPECT_EQ(parsed->region, reply.region);
    EXPECT_EQ(parsed->bytes, reply.bytes);
  }
}

TEST(MessageTest, AnyOtherSizeIsRefused) {
  const RequestBytes bytes = Encode(Attach());
  std::vector<char> longer(bytes.begin(), bytes.end());
  longer.push_back(0);
  EXPECT_THAT(ParseRequest(longer), HasReason(reason::kMessageInvalid));
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_THAT(ParseRequest(absl::MakeSpan(bytes).subspan(0, size)),
                HasReason(reason::kMessageInvalid))
        << size;
  }
  const ReplyBytes reply = Encode(Mapped());
  for (size_t size = 0; size < reply.size(); ++size) {
    EXPECT_THAT(ParseReply(absl::MakeSpan(reply).subspan(0, size)),
                HasReason(reason::kMessageInvalid));
  }
}

struct Mistake {
  const char* what;
  Request request;
  size_t at;
  unsigned char byte;
};

TEST(MessageTest, RequestsThatMeanNothingAreRefused) {
  Request no_name = Attach();
  no_name.name.clear();
  Request no_key = Attach();
  no_key.key.fill(0);
  Request with_region = Attach();
  with_region.region = 1;
  Request map_with_key = Map();
  map_with_key.key.fill(1);
  Request no_region = Check();
  no_region.region = 0;
  Request named_check = Check();
  named_check.name = "b";
  Request path = Map();
  path.name = "../b";
  Request digit = Map();
  digit.name = "1b";
  Request zero = Map();
  zero.name = std::string("b\0c", 3);
  for (const Request& request :
       {no_name, no_key, with_region, map_with_key, no_region, named_check, path, digit, zero}) {
    EXPECT_THAT(ParseRequest(Encode(request)), HasReason(reason::kMessageInvalid))
        << static_cast<int>(request.op) << " " << request.name;
  }
  const Mistake kMistakes[] = {
      {"another word", Attach(), 0, 'q'},
      {"another version", Attach(), 4, 2},
      {"no kind", Attach(), 6, 0},
      {"an unknown kind", Attach(), 6, 5},
      {"a name too long", Attach(), 56, 64},
      {"a name of any size", Attach(), 56, 255},
      {"more than its name", Attach(), 119, 1},
  };
  for (const auto& [what, request, at, byte] : kMistakes) {
    RequestBytes bytes = Encode(request);
    bytes[at] = static_cast<char>(byte);
    EXPECT_THAT(ParseRequest(bytes), HasReason(reason::kMessageInvalid)) << what;
  }
}

TEST(MessageTest, RepliesThatMeanNothingAreRefused) {
  Reply no_region = Mapped();
  no_region.region = 0;
  Reply no_bytes = Mapped();
  no_bytes.bytes = 0;
  Reply refused = Mapped();
  refused.outcome = Outcome::kBufferGone;
  Reply check = Mapped();
  check.op = Op::kCheck;
  for (const Reply& reply : {no_region, no_bytes, refused, check}) {
    EXPECT_THAT(ParseReply(Encode(reply)), HasReason(reason::kMessageInvalid));
  }
  ReplyBytes unknown = Encode(Mapped());
  unknown[32] = 7;
  EXPECT_THAT(ParseReply(unknown), HasReason(reason::kMessageInvalid));
  ReplyBytes trailing = Encode(Mapped());
  trailing[39] = 1;
  EXPECT_THAT(ParseReply(trailing), HasReason(reason::kMessageInvalid));
}

// Whatever is taken is what Encode makes: no two messages mean the same.
TEST(MessageTest, WhatIsTakenIsWhatIsMade) {
  std::mt19937 random(1);
  int taken = 0;
  for (int i = 0; i < 200'000; ++i) {
    RequestBytes bytes = Encode(i % 3 == 0 ? Attach() : i % 3 == 1 ? Map() : Check());
    for (uint32_t flips = random() % 3; flips > 0; --flips) {
      bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    const absl::StatusOr<Request> parsed = ParseRequest(bytes);
    if (!parsed.ok()) continue;
    ++taken;
    EXPECT_EQ(Encode(*parsed), bytes);
  }
  EXPECT_GT(taken, 1000);
}

TEST(MessageTest, KnowsIds) {
  for (const char* good : {"a", "s-1", "abc-9"}) EXPECT_TRUE(IsId(good)) << good;
  for (const char* bad : {"", "A", "1a", "-a", "a/b", "a_b", "a b"}) EXPECT_FALSE(IsId(bad)) << bad;
  EXPECT_FALSE(IsId(std::string(kMaxNameBytes + 1, 'a')));
}

}  // namespace
}  // namespace pto::broker
