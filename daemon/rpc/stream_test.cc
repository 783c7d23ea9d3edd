#include "daemon/rpc/stream.h"

#include <atomic>
#include <latch>
#include <semaphore>
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

using ::pto::testing::HasReason;

// What all reactors of a test have in common: how many there are, and what happened to them.
struct Journal {
  std::atomic<int> alive = 0;
  std::atomic<int> cancelled = 0;
  std::atomic<int> done = 0;
};

// Checks that callbacks of one reactor never overlap.
class Alone {
 public:
  explicit Alone(std::atomic<int>& inside) : inside_(inside) { EXPECT_EQ(++inside_, 1); }
  ~Alone() { --inside_; }

 private:
  std::atomic<int>& inside_;
};

template <typename Base>
class Journaled : public Base {
 public:
  explicit Journaled(Journal& journal) : journal_(journal) { ++journal_.alive; }
  ~Journaled() override { --journal_.alive; }
  void OnCancel() override { ++journal_.cancelled; }
  void OnDone() override {
    ++journal_.done;
    delete this;
  }

 protected:
  Journal& journal_;
};

// Counts from 0 to below the request; refuses negative numbers; never ends above a million.
class Counter final : public Journaled<ServerStreamReactor<Number>> {
 public:
  Counter(Journal& journal, int64_t end) : Journaled(journal), end_(end) {}
  void OnStart() override {
    if (end_ < 0) {
      Finish(Error(reason::kFieldInvalid, "cannot count down").At("number"));
    } else if (end_ == 0) {
      Finish(absl::OkStatus());
    } else {
      Next();
    }
  }
  void OnWriteDone(bool ok) override {
    const Alone alone(inside_);
    if (finished_) return;
    if (!ok) {
      finished_ = true;
      Finish(absl::CancelledError("broken"));
      return;
    }
    Next();
  }

 private:
  void Next() {
    message_.set_number(next_++);
    if (next_ == end_) {
      finished_ = true;
      StartWriteAndFinish(&message_);
    } else {
      // Eight messages leave together.
      StartWrite(&message_, next_ % 8 == 0 ? Flush::kNow : Flush::kWithNext);
    }
  }
  const int64_t end_;
  int64_t next_ = 0;
  bool finished_ = false;
  std::atomic<int> inside_ = 0;
  Number message_;
};

// Adds up; a negative number ends it early with an error.
class Adder final : public Journaled<ClientStreamReactor<Number, Number>> {
 public:
  using Journaled::Journaled;
  void OnStart() override { StartRead(&message_); }
  void OnReadDone(bool ok) override {
    if (!ok) {
      Finish(absl::OkStatus(), MakeNumber(sum_));
    } else if (message_.number() < 0) {
      FinishWithError(Error(reason::kFieldInvalid, "negative").At("number"));
    } else {
      sum_ += message_.number();
      StartRead(&message_);
    }
  }

 private:
  Number message_;
  int64_t sum_ = 0;
};

// Sends everything back.
class Parrot final : public Journaled<BidiStreamReactor<Text, Text>> {
 public:
  using Journaled::Journaled;
  void OnStart() override { StartRead(&message_); }
  void OnReadDone(bool ok) override {
    const Alone alone(inside_);
    if (ok) {
      StartWrite(&message_);
    } else if (!finished_) {
      finished_ = true;
      Finish(absl::OkStatus());
    }
  }
  void OnWriteDone(bool ok) override {
    const Alone alone(inside_);
    if (ok) {
      StartRead(&message_);
    } else if (!finished_) {
      finished_ = true;
      Finish(absl::CancelledError("broken"));
    }
  }

 private:
  Text message_;
  bool finished_ = false;
  std::atomic<int> inside_ = 0;
};

class StreamTest : public ::testing::Test {
 protected:
  StreamTest() {
    Server& server = server_.server();
    server.ServerStream(&EchoService::RequestCount, server_.service(),
                        [this](const Number& request, const grpc::ServerContext&) {
                          return new Counter(journal_, request.number());
                        });
    server.ClientStream(&EchoService::RequestSum, server_.service(),
                        [this](const grpc::ServerContext&) { return new Adder(journal_); });
    server.BidiStream(&EchoService::RequestChat, server_.service(),
                      [this](const grpc::ServerContext&) { return new Parrot(journal_); });
    server_.Start();
    client_ = server_.Client();
  }

  void Stop() { server_.server().Shutdown(absl::Now() + absl::Seconds(60)); }

  Journal journal_;
  TestingServer server_;
  std::unique_ptr<Echo::Stub> client_;
};

TEST_F(StreamTest, TheServerStreams) {
  for (const int64_t end : {0, 1, 2, 7, 8, 9, 1000}) {
    BoundedContext context;
    auto reader = client_->Count(&context, MakeNumber(end));
    Number number;
    int64_t next = 0;
    while (reader->Read(&number)) EXPECT_EQ(number.number(), next++);
    EXPECT_EQ(next, end);
    EXPECT_TRUE(reader->Finish().ok());
  }
  Stop();
  EXPECT_EQ(journal_.alive, 0);
  EXPECT_EQ(journal_.done, 7);
  EXPECT_EQ(journal_.cancelled, 0);
}

TEST_F(StreamTest, AStreamIsRefusedWithDetails) {
  BoundedContext context;
  auto reader = client_->Count(&context, MakeNumber(-1));
  Number number;
  EXPECT_FALSE(reader->Read(&number));
  const absl::Status status = FromGrpcStatus(reader->Finish());
  EXPECT_THAT(status, HasReason(reason::kFieldInvalid));
  EXPECT_EQ(GetErrorDetail(status)->field, "number");
}

TEST_F(StreamTest, TheClientOfAServerStreamGoes) {
  for (int i = 0; i < 20; ++i) {
    BoundedContext context;
    auto reader = client_->Count(&context, MakeNumber(int64_t{1} << 60));
    Number number;
    for (int j = 0; j < i * 10; ++j) ASSERT_TRUE(reader->Read(&number));
    context.TryCancel();
    EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
  }
  Stop();
  EXPECT_EQ(journal_.alive, 0);
}

TEST_F(StreamTest, TheDeadlineOfAServerStreamPasses) {
  BoundedContext context(std::chrono::milliseconds(100));
  auto reader = client_->Count(&context, MakeNumber(int64_t{1} << 60));
  Number number;
  while (reader->Read(&number)) {
  }
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  Stop();
  EXPECT_EQ(journal_.alive, 0);
}

TEST_F(StreamTest, TheClientStreams) {
  BoundedContext context;
  Number sum;
  auto writer = client_->Sum(&context, &sum);
  for (int i = 1; i <= 100; ++i) EXPECT_TRUE(writer->Write(MakeNumber(i)));
  EXPECT_TRUE(writer->WritesDone());
  EXPECT_TRUE(writer->Finish().ok());
  EXPECT_EQ(sum.number(), 5050);
}

TEST_F(StreamTest, TheServerEndsAClientStreamEarly) {
  BoundedContext context;
  Number sum;
  auto writer = client_->Sum(&context, &sum);
  EXPECT_TRUE(writer->Write(MakeNumber(-1)));
  // The server does not read on; sooner or later writing fails.
  while (writer->Write(MakeNumber(1))) {
  }
  EXPECT_THAT(FromGrpcStatus(writer->Finish()), HasReason(reason::kFieldInvalid));
  Stop();
  EXPECT_EQ(journal_.alive, 0);
}

TEST_F(StreamTest, BothStream) {
  BoundedContext context;
  auto chat = client_->Chat(&context);
  Text answer;
  for (int i = 0; i < 200; ++i) {
    ASSERT_TRUE(chat->Write(MakeText(absl::StrCat(i))));
    ASSERT_TRUE(chat->Read(&answer));
    EXPECT_EQ(answer.text(), absl::StrCat(i));
  }
  chat->WritesDone();
  EXPECT_FALSE(chat->Read(&answer));
  EXPECT_TRUE(chat->Finish().ok());
  Stop();
  EXPECT_EQ(journal_.done, 1);
}

// The client library serialises text that is not UTF-8, and only complains in its log.
TEST_F(StreamTest, BytesThatAreNoMessageAreNotTheEndOfAStream) {
  for (int good = 0; good < 3; ++good) {
    BoundedContext context;
    auto chat = client_->Chat(&context);
    Text answer;
    for (int i = 0; i < good; ++i) {
      ASSERT_TRUE(chat->Write(MakeText("x")));
      ASSERT_TRUE(chat->Read(&answer));
    }
    ASSERT_TRUE(chat->Write(MakeText("\xc3\x28")));
    EXPECT_FALSE(chat->Read(&answer));
    const grpc::Status status = chat->Finish();
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    EXPECT_THAT(FromGrpcStatus(status), HasReason(reason::kMessageInvalid));
  }
  Stop();
  EXPECT_EQ(journal_.alive, 0);
  EXPECT_EQ(journal_.done, 3);
}

// Parrot has a read under way most of the time: it ends without OnCancel's help.
TEST_F(StreamTest, TheClientOfABidiStreamGoes) {
  for (int i = 0; i < 30; ++i) {
    BoundedContext context;
    auto chat = client_->Chat(&context);
    Text answer;
    for (int j = 0; j < i % 3; ++j) {
      ASSERT_TRUE(chat->Write(MakeText("x")));
      ASSERT_TRUE(chat->Read(&answer));
    }
    if (i % 2 == 0) chat->Write(MakeText("unread"));
    context.TryCancel();
    EXPECT_EQ(chat->Finish().error_code(), grpc::StatusCode::CANCELLED);
  }
  Stop();
  EXPECT_EQ(journal_.alive, 0);
}

TEST_F(StreamTest, TheServerStopsWhileStreamsAreOpen) {
  BoundedContext count_context;
  BoundedContext sum_context;
  BoundedContext chat_context;
  auto count = client_->Count(&count_context, MakeNumber(int64_t{1} << 60));
  Number number;
  ASSERT_TRUE(count->Read(&number));
  Number sum;
  auto adder = client_->Sum(&sum_context, &sum);
  ASSERT_TRUE(adder->Write(MakeNumber(1)));
  auto chat = client_->Chat(&chat_context);
  Text answer;
  ASSERT_TRUE(chat->Write(MakeText("x")));
  ASSERT_TRUE(chat->Read(&answer));
  server_.server().Shutdown(absl::Now());
  EXPECT_EQ(journal_.alive, 0);
  // The client sees an error; which one depends on how far the goodbye came.
  while (count->Read(&number)) {
  }
  EXPECT_FALSE(count->Finish().ok());
  chat->Read(&answer);
  chat->Finish();
  adder->Finish();
}

TEST_F(StreamTest, ManyStreamsAtOnce) {
  constexpr int kClients = 64;
  std::atomic<int> good = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < kClients; ++i) {
    threads.emplace_back([&] {
      auto client = server_.Client();
      BoundedContext context;
      auto chat = client->Chat(&context);
      Text answer;
      for (int j = 0; j < 10; ++j) {
        if (!chat->Write(MakeText("x")) || !chat->Read(&answer)) return;
      }
      chat->WritesDone();
      if (chat->Finish().ok()) ++good;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(good, kClients);
  Stop();
  EXPECT_EQ(journal_.alive, 0);
}

// A reactor that other threads drive: it only reports what happens.
class Puppet final : public Journaled<BidiStreamReactor<Text, Text>> {
 public:
  using Journaled::Journaled;
  void OnStart() override {
    StartRead(&message);
    started.release();
  }
  void OnReadDone(bool ok) override {
    reading = true;
    if (ok) {
      read.release();
      resume.acquire();
    }
    reading = false;
  }
  void OnWriteDone(bool ok) override {
    EXPECT_FALSE(reading) << "two callbacks at once";
    written_ok = ok;
    written.release();
  }
  void OnCancel() override {
    ++journal_.cancelled;
    Finish(absl::CancelledError("cancelled"));
  }

  Text message;
  std::atomic<bool> reading = false;
  std::atomic<bool> written_ok = false;
  std::binary_semaphore started{0};
  std::binary_semaphore read{0};
  std::binary_semaphore resume{0};
  std::binary_semaphore written{0};
};

class PuppetTest : public ::testing::Test {
 protected:
  PuppetTest() {
    server_.server().BidiStream(&EchoService::RequestChat, server_.service(),
                                [this](const grpc::ServerContext&) {
                                  auto* const puppet = new Puppet(journal_);
                                  puppet_.store(puppet);
                                  puppet_.notify_all();
                                  return puppet;
                                });
    server_.Start();
    client_ = server_.Client();
  }
  Puppet& Wait() {
    puppet_.wait(nullptr);
    puppet_.load()->started.acquire();
    return *puppet_.load();
  }

  Journal journal_;
  std::atomic<Puppet*> puppet_ = nullptr;
  TestingServer server_;
  std::unique_ptr<Echo::Stub> client_;
};

TEST_F(PuppetTest, ACallbackWaitsForTheOneThatRuns) {
  BoundedContext context;
  auto chat = client_->Chat(&context);
  Puppet& puppet = Wait();
  chat->Write(MakeText("x"));
  puppet.read.acquire();
  // OnReadDone sits in its handler now. The write is sent, and comes back on the understudy.
  const Text hello = MakeText("hello");
  puppet.StartWrite(&hello);
  Text answer;
  ASSERT_TRUE(chat->Read(&answer));
  EXPECT_FALSE(puppet.written.try_acquire());
  puppet.resume.release();
  puppet.written.acquire();
  EXPECT_TRUE(puppet.written_ok);
  puppet.Finish(absl::OkStatus());
  EXPECT_TRUE(chat->Finish().ok());
}

TEST_F(PuppetTest, FinishesWithBothOperationsUnderWay) {
  BoundedContext context;
  auto chat = client_->Chat(&context);
  Puppet& puppet = Wait();
  const Text hello = MakeText("hello");
  puppet.StartWrite(&hello);
  puppet.Finish(Error(reason::kNodeDraining, "stopping"));
  Text answer;
  ASSERT_TRUE(chat->Read(&answer));
  EXPECT_EQ(answer.text(), "hello");
  EXPECT_FALSE(chat->Read(&answer));
  EXPECT_THAT(FromGrpcStatus(chat->Finish()), HasReason(reason::kNodeDraining));
  server_.server().Shutdown(absl::Now() + absl::Seconds(60));
  EXPECT_EQ(journal_.alive, 0);
  EXPECT_EQ(journal_.done, 1);
}

TEST_F(PuppetTest, IsToldOfACancelOnce) {
  BoundedContext context;
  auto chat = client_->Chat(&context);
  Wait();
  context.TryCancel();
  EXPECT_EQ(chat->Finish().error_code(), grpc::StatusCode::CANCELLED);
  server_.server().Shutdown(absl::Now() + absl::Seconds(60));
  EXPECT_EQ(journal_.cancelled, 1);
  EXPECT_EQ(journal_.alive, 0);
}

TEST_F(PuppetTest, IsCancelledWhenTheServerStops) {
  BoundedContext context;
  auto chat = client_->Chat(&context);
  Wait();
  server_.server().Shutdown(absl::Now());
  EXPECT_EQ(journal_.cancelled, 1);
  EXPECT_EQ(journal_.alive, 0);
  EXPECT_FALSE(chat->Finish().ok());
}

}  // namespace
}  // namespace pto::daemon::rpc::testing
