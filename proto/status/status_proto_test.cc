#include "proto/status/status_proto.h"

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/error.h"
#include "runtime/base/status_matchers.h"

namespace pto {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;
using ::testing::SizeIs;

v1::ErrorInfo InfoOf(const v1::Status& proto) {
  v1::ErrorInfo info;
  EXPECT_FALSE(proto.details().empty());
  EXPECT_TRUE(proto.details(0).UnpackTo(&info)) << proto.DebugString();
  return info;
}

TEST(StatusProtoTest, OkIsEmptyBothWays) {
  EXPECT_EQ(StatusToProto(absl::OkStatus()).ByteSizeLong(), 0u);
  EXPECT_THAT(StatusFromProto(v1::Status()), testing::IsOk());
}

TEST(StatusProtoTest, CarriesEverythingThereAndBack) {
  const absl::Status status = Error(reason::kBufferLimit, "too many buffers: 12")
                                  .At("buffer_id")
                                  .With("have", 12)
                                  .With("session", "sessions/s1")
                                  .Hint("delete some")
                                  .Limit("max_session_buffers", 12, 11, 1);
  const v1::Status proto = StatusToProto(status);
  EXPECT_EQ(proto.code(), static_cast<int>(absl::StatusCode::kResourceExhausted));
  EXPECT_EQ(proto.message(), "too many buffers: 12");
  EXPECT_THAT(proto.details(), SizeIs(3));
  EXPECT_EQ(InfoOf(proto).domain(), "ptod");
  EXPECT_EQ(InfoOf(proto).scope(), v1::ERROR_SCOPE_REQUEST);

  const absl::Status back = StatusFromProto(proto);
  EXPECT_THAT(back, testing::HasReason(reason::kBufferLimit));
  EXPECT_EQ(back.message(), status.message());
  const absl::optional<ErrorDetail> detail = GetErrorDetail(back);
  ASSERT_TRUE(detail.has_value());
  EXPECT_EQ(detail->mechanism, reason::kBufferLimit.mechanism);
  EXPECT_EQ(detail->hint, "delete some");
  EXPECT_EQ(detail->field, "buffer_id");
  EXPECT_THAT(detail->metadata, ElementsAre(Pair("have", "12"), Pair("session", "sessions/s1")));
  ASSERT_TRUE(detail->quota.has_value());
  EXPECT_EQ(detail->quota->name, "max_session_buffers");
  EXPECT_EQ(detail->quota->limit, 12u);
  EXPECT_EQ(detail->quota->usage, 11u);
  EXPECT_EQ(detail->quota->requested, 1u);
}

TEST(StatusProtoTest, KeepsTheScope) {
  const absl::Status back =
      StatusFromProto(StatusToProto(Error(reason::kNodeDraining, "stopping")));
  EXPECT_EQ(GetErrorDetail(back)->scope, Scope::kNode);
}

// Nothing leaves the daemon without a reason, and its log tells of what would have.
TEST(StatusProtoTest, AnErrorWithoutAReasonIsAFaultOfOurs) {
  ::testing::internal::CaptureStderr();
  const v1::Status proto = StatusToProto(absl::NotFoundError("gone"));
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(proto.code(), static_cast<int>(absl::StatusCode::kInternal));
  EXPECT_EQ(proto.message(), "gone");
  EXPECT_EQ(InfoOf(proto).reason(), "REASON_MISSING");
  EXPECT_EQ(InfoOf(proto).metadata().at("code"), "NOT_FOUND");
  EXPECT_FALSE(InfoOf(proto).hint().empty());
  EXPECT_TRUE(absl::StrContains(log, kNoReasonLogged)) << log;
  EXPECT_TRUE(absl::StrContains(log, "gone")) << log;
}

TEST(StatusProtoTest, SaysWhereToReadOn) {
  const v1::Status proto = StatusToProto(Error(reason::kKernelUnknown, "no such kernel"));
  EXPECT_EQ(InfoOf(proto).help(), "deploy/docs/errors/graphs.md#kernel_unknown");
  EXPECT_EQ(GetErrorDetail(StatusFromProto(proto))->help, InfoOf(proto).help());
}

// With the largest of everything: no reason of the registry may break the bounds.
TEST(StatusProtoTest, EveryReasonFitsWithRoomForItsWords) {
  const std::string huge(100'000, 'x');
  for (const Reason* reason : AllReasons()) {
    const v1::Status proto = StatusToProto(
        Error(*reason, huge).At(huge).With("a", huge).With("b", "kept").Limit(huge, 1, 2, 3));
    EXPECT_LE(proto.message().size(), kMaxErrorMessageBytes) << reason->name;
    EXPECT_LE(proto.ByteSizeLong(), kMaxErrorBytes) << reason->name;
    EXPECT_EQ(InfoOf(proto).hint(), reason->hint);
    EXPECT_EQ(InfoOf(proto).help(), HelpAnchor(*reason));
    EXPECT_EQ(InfoOf(proto).metadata().at("b"), "kept") << reason->name;
  }
}

TEST(StatusProtoTest, AReasonOfALaterReleaseArrives) {
  v1::Status proto;
  proto.set_code(9);
  proto.set_message("m");
  v1::ErrorInfo info;
  info.set_reason("NOT_INVENTED_YET");
  info.set_scope(static_cast<v1::ErrorScope>(99));
  info.set_help("elsewhere.md#not_invented_yet");
  proto.add_details()->PackFrom(info);
  const absl::Status status = StatusFromProto(proto);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ReasonOf(status), "NOT_INVENTED_YET");
  EXPECT_EQ(GetErrorDetail(status)->scope, Scope::kRequest);
  EXPECT_EQ(GetErrorDetail(status)->help, "elsewhere.md#not_invented_yet");
}

TEST(StatusProtoTest, OddInputMakesAPlainStatus) {
  v1::Status proto;
  proto.set_code(77);
  proto.set_message("m");
  proto.add_details()->set_type_url("type.googleapis.com/pto.v1.ErrorInfo");
  proto.mutable_details(0)->set_value("\xff\xff");
  const absl::Status status = StatusFromProto(proto);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnknown);
  EXPECT_EQ(status.message(), "m");
  EXPECT_FALSE(GetErrorDetail(status).has_value());
}

TEST(StatusProtoTest, LongTextsAreCut) {
  const std::string huge(100'000, 'x');
  const v1::Status proto =
      StatusToProto(Error(reason::kFieldInvalid, huge).At(huge).Hint(huge).With(huge, huge));
  EXPECT_EQ(proto.message().size(), kMaxErrorMessageBytes);
  EXPECT_LE(proto.ByteSizeLong(), kMaxErrorBytes);
  EXPECT_EQ(InfoOf(proto).reason(), "FIELD_INVALID");
}

TEST(StatusProtoTest, LeavesOutTheLongestValuesFirst) {
  Error error(reason::kFieldInvalid, "m");
  error.With("short", "1").With("longest", std::string(3000, 'a'));
  error.With("long", std::string(2000, 'b')).With("last", "2");
  const v1::Status proto = StatusToProto(error);
  EXPECT_LE(proto.ByteSizeLong(), kMaxErrorBytes);
  const v1::ErrorInfo info = InfoOf(proto);
  EXPECT_EQ(info.metadata().count("longest"), 0u);
  EXPECT_EQ(info.metadata().count("long"), 1u);
  EXPECT_EQ(info.metadata().count("short"), 1u);
  EXPECT_EQ(info.metadata().count("last"), 1u);
}

TEST(StatusProtoTest, ManySmallValuesFitToo) {
  Error error(reason::kFieldInvalid, std::string(1024, 'm'));
  error.At(std::string(300, 'f'));
  for (int i = 0; i < 1000; ++i) error.With(absl::StrCat("key", i), i);
  const v1::Status proto = StatusToProto(error);
  EXPECT_LE(proto.ByteSizeLong(), kMaxErrorBytes);
  EXPECT_GT(InfoOf(proto).metadata().size(), 50u);
}

TEST(StatusProtoTest, BytesThatAreNotTextDoNotSpoilTheAnswer) {
  const v1::Status proto =
      StatusToProto(Error(reason::kFieldInvalid, "bad \xff name").With("k\xc0", "\xed\xa0\x80"));
  EXPECT_EQ(proto.message(), "bad ? name");
  EXPECT_EQ(InfoOf(proto).metadata().at("k?"), "???");
}

}  // namespace
}  // namespace pto
