#include "daemon/rpc/unary.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <latch>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/rpc/testing_server.h"
#include "gtest/gtest.h"
#include "proto/status/grpc_status.h"
#include "runtime/base/error.h"
#include "runtime/base/mutex.h"
#include "runtime/base/status_matchers.h"

namespace pto::daemon::rpc::testing {
namespace {

using Call = UnaryCallPtr<Text, Text>;
using ::pto::testing::HasReason;

// Keeps one call, as a service keeps its waiters.
class Shelf {
 public:
  void Put(Call call) {
    MutexLock lock(mutex_);
    call_ = std::move(call);
    changed_.NotifyAll();
  }
  Call Take() {
    MutexLock lock(mutex_);
    while (call_ == nullptr) changed_.Wait(mutex_);
    return std::move(call_);
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  Call call_;
};

grpc::Status Say(Echo::Stub& client, const std::string& text, std::string* answer) {
  BoundedContext context;
  Text response;
  const grpc::Status status = client.Say(&context, MakeText(text), &response);
  *answer = response.text();
  return status;
}

TEST(UnaryTest, FinishesInline) {
  TestingServer server;
  server.server().Unary(&EchoService::RequestSay, server.service(), [](Call call) {
    call->response()->set_text(absl::StrCat(call->request().text(), "!"));
    call->Finish(absl::OkStatus());
    // The pointer is good until it is let go, whatever gRPC has done meanwhile.
    EXPECT_EQ(call->request().text().empty(), false);
  });
  server.Start();
  auto client = server.Client();
  std::string answer;
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(Say(*client, absl::StrCat("hello", i), &answer).ok());
    EXPECT_EQ(answer, absl::StrCat("hello", i, "!"));
  }
}

// The client library serialises text that is not UTF-8, and only complains in its log.
TEST(UnaryTest, BytesThatAreNoMessageAreRefusedWithAReason) {
  std::atomic<int> handled = 0;
  TestingServer server;
  server.server().Unary(&EchoService::RequestSay, server.service(), [&](Call call) {
    ++handled;
    call->Finish(absl::OkStatus());
  });
  server.Start();
  auto client = server.Client();
  std::string answer;
  // More often than calls are armed.
  for (int i = 0; i < 20; ++i) {
    const grpc::Status status = Say(*client, "\xc3\x28", &answer);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    EXPECT_THAT(FromGrpcStatus(status), HasReason(reason::kMessageInvalid));
  }
  EXPECT_EQ(handled, 0);
  EXPECT_TRUE(Say(*client, "x", &answer).ok());
  EXPECT_EQ(handled, 1);
}

TEST(UnaryTest, FinishesLaterOnAnotherThread) {
  Shelf shelf;
  TestingServer server;
  server.server().Unary(&EchoService::RequestSay, server.service(),
                        [&](Call call) { shelf.Put(std::move(call)); });
  server.Start();
  std::thread worker([&] {
    for (int i = 0; i < 100; ++i) {
      Call call = shelf.Take();
      call->response()->set_text("later");
      call->Finish(absl::OkStatus());
    }
  });
  auto client = server.Client();
  std::string answer;
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(Say(*client, "x", &answer).ok());
    EXPECT_EQ(answer, "later");
  }
  worker.join();
}

TEST(UnaryTest, CarriesAnErrorWithItsDetails) {
  TestingServer server;
  server.server().Unary(&EchoService::RequestSay, server.service(), [](Call call) {
    call->response()->set_text("must not arrive");
    call->Finish(Error(reason::kIdInvalid, "bad id").At("text").With("have", "x"));
  });
  server.Start();
  std::string answer;
  const absl::Status status = FromGrpcStatus(Say(*server.Client(), "x", &answer));
  EXPECT_THAT(status, HasReason(reason::kIdInvalid));
  EXPECT_EQ(status.message(), "bad id");
  EXPECT_EQ(GetErrorDetail(status)->field, "text");
  EXPECT_EQ(answer, "");
}

TEST(UnaryTest, TheLargestErrorArrives) {
  TestingServer server;
  server.server().Unary(&EchoService::RequestSay, server.service(), [](Call call) {
    // Two bytes each: percent-encoded in the message's header they take six.
    std::string text;
    for (int i = 0; i < 5000; ++i) text += "\xc3\xa9";
    call->Finish(Error(reason::kIdInvalid, text).At(text).With("have", text).Hint(text));
  });
  server.Start();
  std::string answer;
  EXPECT_THAT(FromGrpcStatus(Say(*server.Client(), "x", &answer)), HasReason(reason::kIdInvalid));
}

TEST(UnaryTest, ADroppedCallIsAnswered) {
  TestingServer server;
  server.server().Unary(&EchoService::RequestSay, server.service(), [](Call) {});
  server.Start();
  std::string answer;
  EXPECT_THAT(FromGrpcStatus(Say(*server.Client(), "x", &answer)), HasReason(reason::kInternal));
}

TEST(UnaryTest, TellsALongCallThatItsClientHasGone) {
  Shelf shelf;
  std::atomic<int> cancelled = 0;
  std::latch waiting(1);
  TestingServer server;
  server.server().LongUnary(&EchoService::RequestWait, server.service(), [&](Call call) {
    call->OnCancelled([&] {
      ++cancelled;
      shelf.Take()->Finish(absl::CancelledError("gone"));
    });
    shelf.Put(std::move(call));
    waiting.count_down();
  });
  server.Start();
  auto client = server.Client();
  BoundedContext context;
  std::thread caller([&] {
    Text response;
    EXPECT_EQ(client->Wait(&context, MakeText("x"), &response).error_code(),
              grpc::StatusCode::CANCELLED);
  });
  waiting.wait();
  context.TryCancel();
  caller.join();
  server.server().Shutdown(absl::Now() + absl::Seconds(60));
  EXPECT_EQ(cancelled, 1);
}

TEST(UnaryTest, TellsALongCallThatItsDeadlineHasPassed) {
  Shelf shelf;
  std::atomic<int> taken = 0;
  std::atomic<int> cancelled = 0;
  TestingServer server;
  server.server().LongUnary(&EchoService::RequestWait, server.service(), [&](Call call) {
    ++taken;
    // Put away first: the deadline may have passed by now, and then the callback runs at once.
    auto& waiting = *call;
    shelf.Put(std::move(call));
    waiting.OnCancelled([&] {
      ++cancelled;
      shelf.Take()->Finish(absl::CancelledError("late"));
    });
  });
  server.Start();
  auto client = server.Client();
  // On a busy machine a deadline can pass before the server has seen the call.
  for (auto timeout = std::chrono::milliseconds(100); taken == 0; timeout *= 2) {
    BoundedContext context(timeout);
    Text response;
    ASSERT_EQ(client->Wait(&context, MakeText("x"), &response).error_code(),
              grpc::StatusCode::DEADLINE_EXCEEDED);
  }
  server.server().Shutdown(absl::Now() + absl::Seconds(60));
  EXPECT_EQ(cancelled, taken);
}

// The client goes while the handler still runs, so the notice is there before the callback.
TEST(UnaryTest, TellsALongCallThatItsClientHasGoneAlready) {
  std::atomic<int> cancelled = 0;
  std::latch entered(1);
  TestingServer server;
  server.server().LongUnary(&EchoService::RequestWait, server.service(), [&](Call call) {
    entered.count_down();
    while (!call->context().IsCancelled()) std::this_thread::yield();
    call->OnCancelled([&] { ++cancelled; });
  });
  server.Start();
  auto client = server.Client();
  BoundedContext context;
  std::thread caller([&] {
    Text response;
    EXPECT_FALSE(client->Wait(&context, MakeText("x"), &response).ok());
  });
  entered.wait();
  context.TryCancel();
  caller.join();
  server.server().Shutdown(absl::Now() + absl::Seconds(60));
  EXPECT_EQ(cancelled, 1);
}

// A handler that takes long can look by itself.
TEST(UnaryTest, AHandlerSeesThatItsClientHasGone) {
  std::latch entered(1);
  std::atomic<bool> gone_at_once = false;
  TestingServer server;
  server.server().LongUnary(&EchoService::RequestWait, server.service(), [&](Call call) {
    gone_at_once = call->gone();
    entered.count_down();
    while (!call->gone()) std::this_thread::yield();
    call->Finish(absl::CancelledError("gone"));
  });
  server.Start();
  auto client = server.Client();
  BoundedContext context;
  std::thread caller([&] {
    Text response;
    EXPECT_FALSE(client->Wait(&context, MakeText("x"), &response).ok());
  });
  entered.wait();
  context.TryCancel();
  caller.join();
  server.server().Shutdown(absl::Now() + absl::Seconds(60));
  EXPECT_FALSE(gone_at_once);
}

// Also where only the deadline is known.
TEST(UnaryTest, AHandlerSeesThatItsDeadlineHasPassed) {
  std::atomic<int> taken = 0;
  TestingServer server;
  server.server().Unary(&EchoService::RequestSay, server.service(), [&](Call call) {
    ++taken;
    while (!call->gone()) std::this_thread::yield();
    call->Finish(absl::CancelledError("late"));
  });
  server.Start();
  auto client = server.Client();
  // On a busy machine a deadline can pass before the server has seen the call.
  for (auto timeout = std::chrono::milliseconds(100); taken == 0; timeout *= 2) {
    BoundedContext context(timeout);
    Text response;
    // The client's own clock, or the server's answer, which comes at the same time.
    ASSERT_FALSE(client->Say(&context, MakeText("x"), &response).ok());
  }
  server.server().Shutdown(absl::Now() + absl::Seconds(60));
}

TEST(UnaryTest, DoesNotCancelWhatIsFinished) {
  std::atomic<int> cancelled = 0;
  TestingServer server;
  server.server().LongUnary(&EchoService::RequestWait, server.service(), [&](Call call) {
    call->OnCancelled([&] { ++cancelled; });
    call->Finish(absl::OkStatus());
  });
  server.Start();
  auto client = server.Client();
  for (int i = 0; i < 50; ++i) {
    BoundedContext context;
    Text response;
    EXPECT_TRUE(client->Wait(&context, MakeText("x"), &response).ok());
  }
  server.server().Shutdown(absl::Now() + absl::Seconds(60));
  EXPECT_EQ(cancelled, 0);
}

// Cancellation against completion on two threads, at every distance.
TEST(UnaryTest, CancellingAtAnyMomentLeavesNothingBehind) {
  constexpr int kCalls = 400;
  Mutex mutex;
  std::vector<Call> waiting;
  std::atomic<int> answered = 0;
  std::atomic<bool> stop = false;
  TestingServer server;
  server.server().LongUnary(&EchoService::RequestWait, server.service(), [&](Call call) {
    auto* const key = call.get();
    call->OnCancelled([&, key] {
      MutexLock lock(mutex);
      for (Call& each : waiting) {
        if (each.get() != key) continue;
        each->Finish(absl::CancelledError("gone"));
        std::swap(each, waiting.back());
        waiting.pop_back();
        ++answered;
        break;
      }
    });
    MutexLock lock(mutex);
    // Was it cancelled before it could be found? Then nobody else will answer it.
    if (call->context().IsCancelled()) {
      call->Finish(absl::CancelledError("gone"));
      ++answered;
      return;
    }
    waiting.push_back(std::move(call));
  });
  server.Start();
  std::thread worker([&] {
    while (!stop) {
      Call call;
      {
        MutexLock lock(mutex);
        if (!waiting.empty()) {
          call = std::move(waiting.back());
          waiting.pop_back();
        }
      }
      if (call != nullptr) {
        call->Finish(absl::OkStatus());
        ++answered;
      }
      std::this_thread::yield();
    }
  });
  auto client = server.Client();
  const auto call_once = [&] {
    BoundedContext context;
    Text response;
    EXPECT_TRUE(client->Wait(&context, MakeText("x"), &response).ok());
  };
  call_once();  // connects
  const auto start = std::chrono::steady_clock::now();
  call_once();
  const std::chrono::nanoseconds call_time = std::min<std::chrono::nanoseconds>(
      std::chrono::steady_clock::now() - start, std::chrono::milliseconds(2));
  for (int i = 0; i < kCalls; ++i) {
    BoundedContext context;
    std::thread canceller([&, i] {
      // From the beginning to well beyond the end, whatever the machine.
      std::this_thread::sleep_for(call_time * (i % 200) / 100);
      context.TryCancel();
    });
    Text response;
    client->Wait(&context, MakeText("x"), &response);
    canceller.join();
  }
  server.server().Shutdown(absl::Now() + absl::Seconds(60));
  stop = true;
  worker.join();
  // Some may have been cancelled before they reached the server.
  EXPECT_LE(answered, 2 + kCalls);
  EXPECT_GE(answered, 2);
  EXPECT_TRUE(waiting.empty());
}

}  // namespace
}  // namespace pto::daemon::rpc::testing
