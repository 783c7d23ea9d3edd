#include "client/internal/rpc_error.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/status/grpc_status.h"
#include "runtime/base/error.h"
#include "runtime/base/status_matchers.h"

namespace pto::internal {
namespace {

using ::pto::testing::HasReason;
using ::pto::testing::IsOk;

absl::Status Convert(grpc::StatusCode code, const std::string& message) {
  return RpcError(grpc::Status(code, message), "GetRun", "unix:/run/x", absl::Seconds(3));
}

TEST(RpcErrorTest, LeavesTheDaemonsErrorsAlone) {
  const absl::Status error = Error(reason::kNodeDraining, "going down").With("a", "b");
  EXPECT_EQ(RpcError(ToGrpcStatus(error), "GetRun", "unix:/run/x", absl::Seconds(3)), error);
  EXPECT_THAT(RpcError(grpc::Status::OK, "GetRun", "unix:/run/x", absl::Seconds(3)), IsOk());
}

TEST(RpcErrorTest, FindsTheCauseInTheTextOfGrpc) {
  const absl::Status error = Convert(grpc::StatusCode::UNAVAILABLE,
                                     "failed to connect to all addresses; last error: UNKNOWN: "
                                     "unix:/run/x: No such file or directory");
  EXPECT_THAT(error, HasReason(reason::kDaemonUnreachable));
  EXPECT_EQ(error.message(),
            "GetRun: the daemon at unix:/run/x cannot be reached: No such file or directory");
}

TEST(RpcErrorTest, KeepsATextThatItDoesNotKnow) {
  EXPECT_EQ(Convert(grpc::StatusCode::UNAVAILABLE, "Socket closed").message(),
            "GetRun: the daemon at unix:/run/x cannot be reached: Socket closed");
  EXPECT_EQ(Convert(grpc::StatusCode::UNAVAILABLE, "").message(),
            "GetRun: the daemon at unix:/run/x cannot be reached: the connection is closed");
}

TEST(RpcErrorTest, NamesTheCallThatTookTooLong) {
  const absl::Status error = Convert(grpc::StatusCode::DEADLINE_EXCEEDED, "Deadline Exceeded");
  EXPECT_THAT(error, HasReason(reason::kClientTimeout));
  EXPECT_EQ(error.message(), "GetRun: no answer from unix:/run/x within 3s");
}

TEST(RpcErrorTest, KeepsOtherCodes) {
  EXPECT_EQ(Convert(grpc::StatusCode::UNKNOWN, "odd"), absl::UnknownError("GetRun: odd"));
}

}  // namespace
}  // namespace pto::internal
