#include "tests/harness/api.h"

#include <utility>

namespace pto::testing {
namespace {

std::shared_ptr<grpc::Channel> Connect(const std::string& address) {
  grpc::ChannelArguments args;
  // A separate connection, without state of an earlier daemon.
  args.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  args.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 20);
  args.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 5000);
  args.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 200);
  args.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  args.SetMaxReceiveMessageSize(-1);
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), args);
}

}  // namespace

Api::Api(const std::string& address) : Api(Connect(address)) {}

Api::Api(std::shared_ptr<grpc::Channel> connection)
    : channel(std::move(connection)),
      node(v1::NodeService::NewStub(channel)),
      session(v1::SessionService::NewStub(channel)),
      buffer(v1::BufferService::NewStub(channel)),
      kernel(v1::KernelService::NewStub(channel)),
      domain(v1::DomainService::NewStub(channel)),
      run(v1::RunService::NewStub(channel)),
      event(v1::EventService::NewStub(channel)) {}

}  // namespace pto::testing
