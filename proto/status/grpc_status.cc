#include "proto/status/grpc_status.h"

#include <cstdint>

#include "proto/status/status_proto.h"
#include "pto/v1/error.pb.h"

namespace pto {

grpc::Status ToGrpcStatus(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  const v1::Status proto = StatusToProto(status);
  return grpc::Status(static_cast<grpc::StatusCode>(proto.code()), proto.message(),
                      proto.SerializeAsString());
}

absl::Status FromGrpcStatus(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  v1::Status proto;
  if (status.error_details().empty() || !proto.ParseFromString(status.error_details())) {
    proto.Clear();
  }
  // The call's own code and message are the truth; the details only add to them.
  proto.set_code(static_cast<int32_t>(status.error_code()));
  proto.set_message(status.error_message());
  return StatusFromProto(proto);
}

}  // namespace pto
