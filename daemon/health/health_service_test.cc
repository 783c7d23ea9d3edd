#include "daemon/health/health_service.h"

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "grpcpp/channel.h"
#include "grpcpp/client_context.h"
#include "grpcpp/create_channel.h"
#include "gtest/gtest.h"
#include "proto/status/grpc_status.h"
#include "runtime/base/error.h"
#include "runtime/base/status_matchers.h"
#include "tests/harness/directory.h"

namespace pto::daemon {
namespace {

using grpc::health::v1::Health;
using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;
using ::pto::testing::HasReason;
using ::pto::testing::IsOk;

class HealthServiceTest : public ::testing::Test {
 protected:
  HealthServiceTest() {
    rpc::Server::Options options;
    options.listen = {"unix:" + directory_.path() + "/s"};
    server_ = std::make_unique<rpc::Server>(options);
    health_.Register(*server_);
    EXPECT_THAT(server_->Start(), IsOk());
    client_ = Health::NewStub(
        grpc::CreateChannel(server_->addresses()[0], grpc::InsecureChannelCredentials()));
  }

  struct Watch {
    grpc::ClientContext context;
    std::unique_ptr<grpc::ClientReader<HealthCheckResponse>> reader;
    HealthCheckResponse response;
    // The next status, or UNKNOWN at the end.
    HealthCheckResponse::ServingStatus Next() {
      return reader->Read(&response) ? response.status() : HealthCheckResponse::UNKNOWN;
    }
  };
  std::unique_ptr<Watch> StartWatch(const std::string& name) {
    auto watch = std::make_unique<Watch>();
    SetDeadline(watch->context);
    HealthCheckRequest request;
    request.set_service(name);
    watch->reader = client_->Watch(&watch->context, request);
    return watch;
  }

  absl::StatusOr<HealthCheckResponse::ServingStatus> Check(const std::string& name) {
    grpc::ClientContext context;
    SetDeadline(context);
    HealthCheckRequest request;
    request.set_service(name);
    HealthCheckResponse response;
    const grpc::Status status = client_->Check(&context, request, &response);
    if (!status.ok()) return FromGrpcStatus(status);
    return response.status();
  }

  static void SetDeadline(grpc::ClientContext& context) {
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
  }

  const testing::Directory directory_;
  HealthService health_;
  std::unique_ptr<rpc::Server> server_;
  std::unique_ptr<Health::Stub> client_;
};

TEST_F(HealthServiceTest, Checks) {
  health_.SetServing("", true);
  health_.SetServing("pto.v1.RunService", false);
  EXPECT_EQ(*Check(""), HealthCheckResponse::SERVING);
  EXPECT_EQ(*Check("pto.v1.RunService"), HealthCheckResponse::NOT_SERVING);
  health_.SetServing("pto.v1.RunService", true);
  EXPECT_EQ(*Check("pto.v1.RunService"), HealthCheckResponse::SERVING);
  EXPECT_THAT(Check("nonsense").status(), HasReason(reason::kServiceUnknown));
}

TEST_F(HealthServiceTest, WatchesChanges) {
  health_.SetServing("a", false);
  health_.SetServing("b", false);
  auto watch = StartWatch("a");
  EXPECT_EQ(watch->Next(), HealthCheckResponse::NOT_SERVING);
  health_.SetServing("b", true);
  health_.SetServing("a", false);
  health_.SetServing("a", true);
  EXPECT_EQ(watch->Next(), HealthCheckResponse::SERVING);
  health_.SetServing("a", false);
  EXPECT_EQ(watch->Next(), HealthCheckResponse::NOT_SERVING);
}

TEST_F(HealthServiceTest, AnUnknownServiceMayAppear) {
  auto watch = StartWatch("late");
  EXPECT_EQ(watch->Next(), HealthCheckResponse::SERVICE_UNKNOWN);
  health_.SetServing("late", true);
  EXPECT_EQ(watch->Next(), HealthCheckResponse::SERVING);
}

TEST_F(HealthServiceTest, AWatcherMayGo) {
  for (int i = 0; i < 10; ++i) {
    auto watch = StartWatch("a");
    watch->Next();
    watch->context.TryCancel();
    health_.SetServing("a", i % 2 == 0);
    EXPECT_FALSE(watch->reader->Finish().ok());
  }
  EXPECT_TRUE(Check("a").ok());
}

TEST_F(HealthServiceTest, StoppingEndsTheWatches) {
  health_.SetServing("", true);
  auto watch = StartWatch("");
  EXPECT_EQ(watch->Next(), HealthCheckResponse::SERVING);
  auto other = StartWatch("unknown");
  EXPECT_EQ(other->Next(), HealthCheckResponse::SERVICE_UNKNOWN);
  health_.Stop();
  health_.SetServing("", true);
  EXPECT_EQ(watch->Next(), HealthCheckResponse::NOT_SERVING);
  EXPECT_EQ(watch->Next(), HealthCheckResponse::UNKNOWN);
  EXPECT_THAT(FromGrpcStatus(watch->reader->Finish()), HasReason(reason::kNodeDraining));
  EXPECT_EQ(other->Next(), HealthCheckResponse::UNKNOWN);
  EXPECT_EQ(*Check(""), HealthCheckResponse::NOT_SERVING);
  // A new watcher gets the same status and is ended.
  auto late = StartWatch("");
  EXPECT_EQ(late->Next(), HealthCheckResponse::NOT_SERVING);
  EXPECT_EQ(late->Next(), HealthCheckResponse::UNKNOWN);
  // Watches do not delay the shutdown.
  server_->Shutdown(absl::InfiniteFuture());
}

TEST_F(HealthServiceTest, ChangesComeFromManyThreads) {
  auto watch = StartWatch("a");
  watch->Next();
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int j = 0; j < 200; ++j) health_.SetServing("a", j % 2 == 0);
    });
  }
  for (std::thread& thread : threads) thread.join();
  health_.SetServing("a", true);
  while (watch->Next() != HealthCheckResponse::SERVING) {
  }
}

}  // namespace
}  // namespace pto::daemon
