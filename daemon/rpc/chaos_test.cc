#include "daemon/rpc/chaos.h"

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "daemon/rpc/testing_server.h"
#include "gtest/gtest.h"
#include "proto/status/grpc_status.h"
#include "runtime/base/error.h"
#include "runtime/base/failpoint.h"
#include "runtime/base/status_matchers.h"

namespace pto::daemon::rpc::testing {
namespace {

using ::pto::testing::HasReason;
using ::pto::testing::IsOk;

// Counts from 0 to below the request.
class Counter final : public ServerStreamReactor<Number> {
 public:
  explicit Counter(int64_t end) : end_(end) {}
  void OnStart() override { Next(); }
  void OnWriteDone(bool ok) override {
    if (ok) {
      Next();
    } else {
      Finish(Error(reason::kStreamBroken, "broken"));
    }
  }
  void OnDone() override { delete this; }

 private:
  void Next() {
    message_.set_number(next_++);
    if (next_ == end_) {
      StartWriteAndFinish(&message_);
    } else {
      StartWrite(&message_);
    }
  }
  const int64_t end_;
  int64_t next_ = 0;
  Number message_;
};

// Adds up.
class Adder final : public ClientStreamReactor<Number, Number> {
 public:
  void OnStart() override { StartRead(&message_); }
  void OnReadDone(bool ok) override {
    if (!ok) {
      Finish(absl::OkStatus(), MakeNumber(sum_));
      return;
    }
    sum_ += message_.number();
    StartRead(&message_);
  }
  void OnDone() override { delete this; }

 private:
  int64_t sum_ = 0;
  Number message_;
};

// Says everything again.
class Parrot final : public BidiStreamReactor<Text, Text> {
 public:
  void OnStart() override { StartRead(&message_); }
  void OnReadDone(bool ok) override {
    if (ok) {
      StartWrite(&message_);
    } else {
      Finish(absl::OkStatus());
    }
  }
  void OnWriteDone(bool ok) override {
    if (ok) {
      StartRead(&message_);
    } else {
      Finish(Error(reason::kStreamBroken, "broken"));
    }
  }
  void OnDone() override { delete this; }

 private:
  Text message_;
};

class ChaosTest : public ::testing::Test {
 protected:
  ChaosTest() {
    server_.server().Unary(&EchoService::RequestSay, server_.service(),
                           [this](UnaryCallPtr<Text, Text> call) {
                             ++handled_;
                             *call->response() = call->request();
                             call->Finish(absl::OkStatus());
                           });
    server_.server().ServerStream(
        &EchoService::RequestCount, server_.service(),
        [](const Number& request, const auto&) { return new Counter(request.number()); });
    server_.server().ClientStream(&EchoService::RequestSum, server_.service(),
                                  [](const auto&) { return new Adder; });
    server_.server().BidiStream(&EchoService::RequestChat, server_.service(),
                                [](const auto&) { return new Parrot; });
    server_.Start();
    client_ = server_.Client();
  }
  void SetUp() override {
    if (!kHasFailpoints) GTEST_SKIP() << "a release build has no failpoints";
  }
  void TearDown() override { EXPECT_THAT(failpoint::Set(""), IsOk()); }

  static void Set(const std::string& text) { ASSERT_THAT(failpoint::Set(text), IsOk()); }

  absl::Status Say() {
    BoundedContext context;
    Text response;
    return FromGrpcStatus(client_->Say(&context, MakeText("x"), &response));
  }
  // How many numbers came, and how the stream ended.
  std::pair<int, absl::Status> Count(int64_t end) {
    BoundedContext context;
    const auto reader = client_->Count(&context, MakeNumber(end));
    Number number;
    int count = 0;
    while (reader->Read(&number)) ++count;
    return {count, FromGrpcStatus(reader->Finish())};
  }
  absl::Status Sum() {
    BoundedContext context;
    Number sum;
    const auto writer = client_->Sum(&context, &sum);
    for (int i = 0; i < 10 && writer->Write(MakeNumber(1)); ++i) {
    }
    writer->WritesDone();
    const grpc::Status status = writer->Finish();
    if (status.ok()) {
      EXPECT_EQ(sum.number(), 10);
    }
    return FromGrpcStatus(status);
  }
  absl::Status Chat() {
    BoundedContext context;
    const auto stream = client_->Chat(&context);
    Text heard;
    for (int i = 0; i < 10 && stream->Write(MakeText("x")) && stream->Read(&heard); ++i) {
    }
    stream->WritesDone();
    while (stream->Read(&heard)) {
    }
    return FromGrpcStatus(stream->Finish());
  }

  std::atomic<int> handled_ = 0;
  TestingServer server_;
  std::unique_ptr<Echo::Stub> client_;
};

// As a call ends whose connection breaks: nothing of ours is in it.
void ExpectLost(const absl::Status& status, absl::StatusCode code) {
  EXPECT_EQ(status.code(), code) << status;
  EXPECT_FALSE(GetErrorDetail(status).has_value()) << status;
}

TEST_F(ChaosTest, BeforeNothingIsDone) {
  Set("rpc.before=error");
  EXPECT_THAT(Say(), HasReason(reason::kNodeDraining));
  EXPECT_THAT(Count(5).second, HasReason(reason::kNodeDraining));
  EXPECT_THAT(Sum(), HasReason(reason::kNodeDraining));
  EXPECT_THAT(Chat(), HasReason(reason::kNodeDraining));
  Set("rpc.before=drop");
  ExpectLost(Say(), absl::StatusCode::kUnavailable);
  ExpectLost(Count(5).second, absl::StatusCode::kUnavailable);
  ExpectLost(Sum(), absl::StatusCode::kUnavailable);
  ExpectLost(Chat(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(handled_, 0);
  EXPECT_EQ(Count(5).first, 0);
}

TEST_F(ChaosTest, DuringTheHandlerGoesOnWithoutItsClient) {
  Set("rpc.during.Say=drop");
  ExpectLost(Say(), absl::StatusCode::kCancelled);
  // The client may know of its end before the handler begins.
  while (handled_ != 1) std::this_thread::yield();
  Set("rpc.during=error@3*1");
  const auto [count, end] = Count(1000);
  ExpectLost(end, absl::StatusCode::kCancelled);
  EXPECT_LT(count, 1000);
  Set("rpc.during=drop@3*1");
  ExpectLost(Sum(), absl::StatusCode::kCancelled);
  Set("rpc.during=drop@3*1");
  ExpectLost(Chat(), absl::StatusCode::kCancelled);
}

TEST_F(ChaosTest, AfterTheClientIsToldOtherwise) {
  Set("rpc.after=error");
  EXPECT_THAT(Say(), HasReason(reason::kNodeDraining));
  EXPECT_THAT(Sum(), HasReason(reason::kNodeDraining));
  Set("rpc.after=drop");
  ExpectLost(Say(), absl::StatusCode::kUnavailable);
  const auto [count, end] = Count(5);
  EXPECT_EQ(count, 5);
  ExpectLost(end, absl::StatusCode::kUnavailable);
  ExpectLost(Chat(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(handled_, 2);
}

TEST_F(ChaosTest, OnlyTheMethodThatIsNamed) {
  Set("rpc.before.Sum=error,rpc.after.Chat=drop");
  EXPECT_THAT(Say(), IsOk());
  EXPECT_THAT(Count(5).second, IsOk());
  EXPECT_THAT(Sum(), HasReason(reason::kNodeDraining));
  ExpectLost(Chat(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(failpoint::Hits("rpc.before.Sum"), 1);
  Set("");
  EXPECT_THAT(Sum(), IsOk());
  EXPECT_THAT(Chat(), IsOk());
}

}  // namespace
}  // namespace pto::daemon::rpc::testing
