#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "google/protobuf/text_format.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "proto/status/grpc_status.h"
#include "pto/v1/buffer.grpc.pb.h"
#include "pto/v1/domain.grpc.pb.h"
#include "pto/v1/event.grpc.pb.h"
#include "pto/v1/kernel.grpc.pb.h"
#include "pto/v1/node.grpc.pb.h"
#include "pto/v1/run.grpc.pb.h"
#include "pto/v1/session.grpc.pb.h"

namespace pto::testing {

// The timeout of calls in tests that are not about time.
inline constexpr absl::Duration kCallTimeout = absl::Seconds(60);

// The API without the client library: one connection and the generated stubs. Thread-safe.
class Api {
 public:
  explicit Api(const std::string& address);
  explicit Api(std::shared_ptr<grpc::Channel> connection);

  std::shared_ptr<grpc::Channel> channel;
  std::unique_ptr<v1::NodeService::Stub> node;
  std::unique_ptr<v1::SessionService::Stub> session;
  std::unique_ptr<v1::BufferService::Stub> buffer;
  std::unique_ptr<v1::KernelService::Stub> kernel;
  std::unique_ptr<v1::DomainService::Stub> domain;
  std::unique_ptr<v1::RunService::Stub> run;
  std::unique_ptr<v1::EventService::Stub> event;
};

// Parses text protobuf; fails the test if it is invalid.
template <typename Message>
Message Proto(const std::string& text) {
  Message message;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message)) << text;
  return message;
}

// A unary call: Call(*api.run, &v1::RunService::Stub::GetRun, request).
template <typename Stub, typename Request, typename Response>
absl::StatusOr<Response> Call(Stub& stub,
                              grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&,
                                                           Response*),
                              const Request& request, absl::Duration timeout = kCallTimeout) {
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + timeout));
  Response response;
  const grpc::Status status = (stub.*method)(&context, request, &response);
  if (!status.ok()) return FromGrpcStatus(status);
  return response;
}

}  // namespace pto::testing
