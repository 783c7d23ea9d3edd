#include "tests/integration/lifecycle.h"

#include <cstring>

#include "absl/time/clock.h"
#include "proto/status/status_proto.h"

namespace pto::testing {

absl::Status ErrorOf(const v1::Run& run) { return StatusFromProto(run.error()); }

std::vector<float> ReadFloats(Api& api, const std::string& buffer) {
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + kCallTimeout));
  v1::ReadBufferRequest request;
  request.set_name(buffer);
  const auto reader = api.buffer->ReadBuffer(&context, request);
  std::string bytes;
  v1::ReadBufferResponse response;
  while (reader->Read(&response)) bytes += response.data();
  const grpc::Status status = reader->Finish();
  EXPECT_TRUE(status.ok()) << status.error_message();
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
  return values;
}

absl::Status WriteBytes(Api& api, const std::string& buffer, const std::string& bytes) {
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + kCallTimeout));
  v1::WriteBufferResponse response;
  const auto writer = api.buffer->WriteBuffer(&context, &response);
  v1::WriteBufferRequest request;
  request.set_name(buffer);
  request.set_data(bytes);
  writer->Write(request);
  writer->WritesDone();
  return FromGrpcStatus(writer->Finish());
}

}  // namespace pto::testing
