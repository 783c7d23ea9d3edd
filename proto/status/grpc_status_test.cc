#include "proto/status/grpc_status.h"

#include "gtest/gtest.h"
#include "runtime/base/error.h"
#include "runtime/base/status_matchers.h"

namespace pto {
namespace {

TEST(GrpcStatusTest, OkBothWays) {
  EXPECT_TRUE(ToGrpcStatus(absl::OkStatus()).ok());
  EXPECT_THAT(FromGrpcStatus(grpc::Status::OK), testing::IsOk());
}

TEST(GrpcStatusTest, KeepsReasonAndField) {
  const grpc::Status wire = ToGrpcStatus(Error(reason::kIdInvalid, "bad id").At("session_id"));
  EXPECT_EQ(wire.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(wire.error_message(), "bad id");
  const absl::Status back = FromGrpcStatus(wire);
  EXPECT_THAT(back, testing::HasReason(reason::kIdInvalid));
  EXPECT_EQ(GetErrorDetail(back)->field, "session_id");
}

TEST(GrpcStatusTest, AnErrorOfGrpcItselfHasNoDetail) {
  const absl::Status back =
      FromGrpcStatus(grpc::Status(grpc::StatusCode::UNAVAILABLE, "connection refused"));
  EXPECT_EQ(back.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(back.message(), "connection refused");
  EXPECT_FALSE(GetErrorDetail(back).has_value());
}

TEST(GrpcStatusTest, SpoiltDetailsDoNotHideTheError) {
  const absl::Status back =
      FromGrpcStatus(grpc::Status(grpc::StatusCode::INTERNAL, "broken", "\xff\xff\xff"));
  EXPECT_EQ(back.code(), absl::StatusCode::kInternal);
  EXPECT_EQ(back.message(), "broken");
}

}  // namespace
}  // namespace pto
