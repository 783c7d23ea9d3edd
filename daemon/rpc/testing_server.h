#pragma once

#include <stdlib.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "daemon/rpc/server.h"
#include "daemon/rpc/testing.grpc.pb.h"
#include "grpcpp/channel.h"
#include "grpcpp/client_context.h"
#include "grpcpp/create_channel.h"
#include "gtest/gtest.h"
#include "runtime/base/status_matchers.h"

namespace pto::daemon::rpc::testing {

using EchoService = Echo::AsyncService;

// A server for the Echo service on a socket of its own. A test registers the methods that it
// needs on server() before Start.
class TestingServer {
 public:
  TestingServer() : TestingServer(Server::Options()) {}
  explicit TestingServer(Server::Options options) {
    char directory[] = "/tmp/rpc-XXXXXX";
    EXPECT_NE(mkdtemp(directory), nullptr);
    directory_ = directory;
    if (options.listen.empty()) options.listen = {absl::StrCat("unix:", directory_, "/s")};
    server_ = std::make_unique<Server>(std::move(options));
    server_->AddService(&service_);
  }
  ~TestingServer() {
    server_.reset();
    EXPECT_EQ(rmdir(directory_.c_str()), 0);
  }

  Server& server() { return *server_; }
  EchoService* service() { return &service_; }

  void Start() { ASSERT_THAT(server_->Start(), pto::testing::IsOk()); }

  // A client on a connection of its own.
  std::unique_ptr<Echo::Stub> Client() {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    return Echo::NewStub(grpc::CreateCustomChannel(server_->addresses().at(0),
                                                   grpc::InsecureChannelCredentials(), arguments));
  }

 private:
  std::string directory_;
  EchoService service_;
  std::unique_ptr<Server> server_;
};

// A context whose call fails rather than hangs.
class BoundedContext : public grpc::ClientContext {
 public:
  explicit BoundedContext(std::chrono::milliseconds timeout = std::chrono::seconds(60)) {
    set_deadline(std::chrono::system_clock::now() + timeout);
    set_wait_for_ready(true);
  }
};

inline Text MakeText(std::string text) {
  Text message;
  message.set_text(std::move(text));
  return message;
}

inline Number MakeNumber(int64_t number) {
  Number message;
  message.set_number(number);
  return message;
}

}  // namespace pto::daemon::rpc::testing
