#include "tests/harness/identified_channel.h"

#include <regex>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"
#include "grpcpp/support/channel_arguments.h"
#include "grpcpp/support/client_interceptor.h"

namespace pto::testing {
namespace {

// Adds a header to each call.
class Bearer final : public grpc::experimental::Interceptor {
 public:
  explicit Bearer(std::string value) : value_(std::move(value)) {}
  void Intercept(grpc::experimental::InterceptorBatchMethods* methods) override {
    using Point = grpc::experimental::InterceptionHookPoints;
    if (methods->QueryInterceptionHookPoint(Point::PRE_SEND_INITIAL_METADATA)) {
      methods->GetSendInitialMetadata()->insert({"authorization", value_});
    }
    methods->Proceed();
  }

 private:
  const std::string value_;
};

class BearerFactory final : public grpc::experimental::ClientInterceptorFactoryInterface {
 public:
  explicit BearerFactory(std::string value) : value_(std::move(value)) {}
  grpc::experimental::Interceptor* CreateClientInterceptor(
      grpc::experimental::ClientRpcInfo* /*info*/) override {
    return new Bearer(value_);
  }

 private:
  const std::string value_;
};

}  // namespace

std::shared_ptr<grpc::Channel> ChannelWithToken(const std::string& address,
                                                const std::string& token) {
  std::vector<std::unique_ptr<grpc::experimental::ClientInterceptorFactoryInterface>> interceptors;
  interceptors.push_back(std::make_unique<BearerFactory>(absl::StrCat("Bearer ", token)));
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::experimental::CreateCustomChannelWithInterceptors(
      address, grpc::InsecureChannelCredentials(), arguments, std::move(interceptors));
}

std::shared_ptr<grpc::Channel> ChannelWithCertificate(const std::string& address,
                                                      const TestCertificate& authority,
                                                      const TestCertificate& client) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetSslTargetNameOverride("localhost");
  return grpc::CreateCustomChannel(
      address, grpc::SslCredentials({authority.certificate(), client.key(), client.certificate()}),
      arguments);
}

std::string TcpAddressIn(const std::string& log) {
  std::smatch match;
  if (!std::regex_search(log, match, std::regex("127\\.0\\.0\\.1:[1-9][0-9]*"))) return "";
  return match[0].str();
}

}  // namespace pto::testing
