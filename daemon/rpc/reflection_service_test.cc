#include "daemon/rpc/reflection_service.h"

#include <sys/types.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "daemon/rpc/testing_server.h"
#include "gmock/gmock.h"
#include "google/protobuf/descriptor.pb.h"
#include "gtest/gtest.h"

namespace pto::daemon::rpc::testing {
namespace {

using grpc::reflection::v1alpha::ServerReflection;
using ::testing::Contains;
using ::testing::HasSubstr;
using Request = ReflectionService::Request;
using Response = ReflectionService::Response;

class ReflectionServiceTest : public ::testing::Test {
 protected:
  ReflectionServiceTest() {
    server_.server().Unary(&EchoService::RequestSay, server_.service(),
                           [](UnaryCallPtr<Text, Text> call) { call->Finish(absl::OkStatus()); });
    reflection_.Register(server_.server());
    server_.Start();
    stub_ = ServerReflection::NewStub(grpc::CreateChannel(server_.server().addresses().at(0),
                                                          grpc::InsecureChannelCredentials()));
  }
  Response Ask(const Request& request) {
    BoundedContext context;
    const auto stream = stub_->ServerReflectionInfo(&context);
    EXPECT_TRUE(stream->Write(request));
    Response response;
    EXPECT_TRUE(stream->Read(&response));
    stream->WritesDone();
    EXPECT_TRUE(stream->Finish().ok());
    return response;
  }
  static std::vector<std::string> Files(const Response& response) {
    std::vector<std::string> names;
    for (const std::string& bytes : response.file_descriptor_response().file_descriptor_proto()) {
      google::protobuf::FileDescriptorProto file;
      EXPECT_TRUE(file.ParseFromString(bytes));
      names.push_back(file.name());
    }
    return names;
  }

  ReflectionService reflection_;
  TestingServer server_;
  std::unique_ptr<ServerReflection::Stub> stub_;
};

TEST_F(ReflectionServiceTest, ListsServices) {
  Request request;
  request.set_list_services("*");
  std::vector<std::string> names;
  const Response response = Ask(request);
  for (const auto& service : response.list_services_response().service()) {
    names.push_back(service.name());
  }
  EXPECT_THAT(names, Contains("pto.daemon.rpc.testing.Echo"));
  EXPECT_THAT(names, Contains("grpc.reflection.v1alpha.ServerReflection"));
}

TEST_F(ReflectionServiceTest, FindsFiles) {
  Request request;
  request.set_file_containing_symbol("pto.daemon.rpc.testing.Echo.Say");
  EXPECT_THAT(Files(Ask(request)), Contains("daemon/rpc/testing.proto"));
  request.set_file_by_filename("daemon/rpc/testing.proto");
  EXPECT_THAT(Files(Ask(request)), Contains("daemon/rpc/testing.proto"));
}

TEST_F(ReflectionServiceTest, SaysWhatIsNotThere) {
  Request request;
  request.set_file_containing_symbol("no.such.Thing");
  EXPECT_THAT(Ask(request).error_response().error_message(), HasSubstr("no.such.Thing"));
  request.set_file_by_filename("no/such/file.proto");
  EXPECT_THAT(Ask(request).error_response().error_message(), HasSubstr("no/such/file.proto"));
  request.set_all_extension_numbers_of_type("no.such.Message");
  EXPECT_THAT(Ask(request).error_response().error_message(), HasSubstr("no.such.Message"));
  request.mutable_file_containing_extension()->set_containing_type("no.such.Type");
  EXPECT_THAT(Ask(request).error_response().error_message(), HasSubstr("no.such.Type"));
  EXPECT_EQ(Ask(Request()).error_response().error_code(), 3);
}

size_t Threads() {
  size_t count = 0;
  for ([[maybe_unused]] const auto& thread :
       std::filesystem::directory_iterator("/proc/self/task")) {
    ++count;
  }
  return count;
}

TEST_F(ReflectionServiceTest, AStreamTakesNoThread) {
  constexpr int kStreams = 100;
  struct Open {
    BoundedContext context;
    std::unique_ptr<grpc::ClientReaderWriter<Request, Response>> stream;
  };
  const auto open = [this] {
    auto one = std::make_unique<Open>();
    one->stream = stub_->ServerReflectionInfo(&one->context);
    Request request;
    request.set_list_services("*");
    Response response;
    EXPECT_TRUE(one->stream->Write(request));
    EXPECT_TRUE(one->stream->Read(&response));
    return one;
  };
  std::vector<std::unique_ptr<Open>> streams;
  streams.push_back(open());
  const size_t threads = Threads();
  for (int i = 1; i < kStreams; ++i) streams.push_back(open());
  // gRPC starts some of its own when it likes.
  EXPECT_LT(Threads(), threads + kStreams / 4);
  for (const auto& one : streams) {
    one->stream->WritesDone();
    EXPECT_TRUE(one->stream->Finish().ok());
  }
}

}  // namespace
}  // namespace pto::daemon::rpc::testing
