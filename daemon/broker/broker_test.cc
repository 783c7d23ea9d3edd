#include "daemon/broker/broker.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "daemon/session/testing/session_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/broker/message.h"
#include "runtime/base/file_descriptor.h"
#include "runtime/base/status_matchers.h"
#include "runtime/chip/page_reclaimer.h"
#include "tests/harness/broker_client.h"
#include "tests/harness/directory.h"

namespace pto::daemon::testing {
namespace {

using broker::Op;
using broker::Outcome;
using ::pto::testing::BrokerClient;
using ::pto::testing::Directory;
using ::pto::testing::IsOk;

class BrokerTest : public SessionTest {
 protected:
  BrokerTest() {
    SessionManager::Request request;
    request.id = "s";
    request.attach_key = std::string(broker::kKeyBytes, 'k');
    session_ = sessions_->Create(auth::Principal(auth::UidName(geteuid()), {}), request).value();
    MakeBuffers(*session_, {{"x", 0, 256 << 10}, {"y", 0, 4096}}).value();
  }

  void Start(Broker::Options options = {}) {
    options.path = directory_.path() + "/mem";
    options.sessions = sessions_.get();
    options.budget = budget_;
    broker_ = Broker::Start(std::move(options)).value();
  }
  BrokerClient Connect() const { return BrokerClient(broker_->path()); }
  BrokerClient ConnectAttached() const {
    BrokerClient client = Connect();
    EXPECT_EQ(client.Attach("s", 'k'), Outcome::kOk);
    return client;
  }

  // The broker may still hold what it has just sent.
  void AwaitFiles(uint64_t count) const {
    while (budget_->files() != count) std::this_thread::yield();
  }

  const Directory directory_;
  std::shared_ptr<engine::SharingBudget> budget_ =
      std::make_shared<engine::SharingBudget>(8, 64 << 20);
  std::shared_ptr<Session> session_;
  std::unique_ptr<Broker> broker_;
};

TEST_F(BrokerTest, GivesTheOwnerTheMemoryItself) {
  Start();
  const BrokerClient client = ConnectAttached();
  FileDescriptor descriptor;
  uint64_t region = 0;
  ASSERT_EQ(client.Map("x", &descriptor, &region), Outcome::kOk);
  ASSERT_TRUE(descriptor.valid());
  EXPECT_EQ(fcntl(descriptor.get(), F_GET_SEALS), F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
  void* const mapped = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor.get(), 0);
  ASSERT_NE(mapped, MAP_FAILED);
  static_cast<char*>(mapped)[5] = 42;
  EXPECT_EQ(session_->FindBuffer("x").value()->memory->AsHost()->data()[5], std::byte{42});
  munmap(mapped, 4096);
  EXPECT_EQ(client.Check(region), Outcome::kOk);
  // Mapping again gives the same memory under another number.
  uint64_t second = 0;
  FileDescriptor again;
  ASSERT_EQ(client.Map("x", &again, &second), Outcome::kOk);
  EXPECT_TRUE(again.valid());
  EXPECT_NE(second, region);
  EXPECT_EQ(budget_->files(), 1u);
  EXPECT_EQ(client.Release(region), Outcome::kOk);
  EXPECT_EQ(client.Check(region), Outcome::kRegionUnknown);
  EXPECT_EQ(client.Check(second), Outcome::kOk);
}

TEST_F(BrokerTest, OthersGetNothing) {
  Start();
  const BrokerClient stranger = Connect();
  FileDescriptor descriptor;
  EXPECT_EQ(stranger.Map("x", &descriptor), Outcome::kDenied);
  EXPECT_FALSE(descriptor.valid());
  EXPECT_EQ(stranger.Attach("s", 'l'), Outcome::kDenied);
  EXPECT_TRUE(stranger.HungUp());
  // A region belongs to the connection that got it.
  const BrokerClient owner = ConnectAttached();
  uint64_t region = 0;
  ASSERT_EQ(owner.Map("y", &descriptor, &region), Outcome::kOk);
  const BrokerClient second = ConnectAttached();
  EXPECT_EQ(second.Check(region), Outcome::kRegionUnknown);
  EXPECT_EQ(second.Map("z"), Outcome::kBufferGone);
}

TEST_F(BrokerTest, WhatIsNoMessageEndsTheConnection) {
  Start();
  const broker::RequestBytes good = broker::Encode(BrokerClient::AttachRequest("s", 'k'));
  std::vector<std::string> messages = {
      "x", std::string(broker::kRequestBytes, '\0'), std::string(good.data(), good.size() - 1),
      std::string(good.data(), good.size()) + "x", std::string(100'000, 'x')};
  for (const std::string& message : messages) {
    const BrokerClient client = Connect();
    ASSERT_TRUE(client.Send(message.data(), message.size()));
    EXPECT_TRUE(client.HungUp()) << message.size();
  }
  EXPECT_EQ(ConnectAttached().Map("y"), Outcome::kOk);
}

TEST_F(BrokerTest, DescriptorsFromAClientAreNotTaken) {
  Start();
  const BrokerClient client = Connect();
  const int own = memfd_create("test", 0);
  ASSERT_GE(own, 0);
  ASSERT_TRUE(client.SendWithDescriptor(BrokerClient::AttachRequest("s", 'k'), own));
  EXPECT_TRUE(client.HungUp());
  close(own);
}

TEST_F(BrokerTest, WhoDoesNotAttachInTimeIsCutOff) {
  Broker::Options options;
  options.attach_timeout = absl::Milliseconds(20);
  Start(options);
  const BrokerClient silent = Connect();
  EXPECT_TRUE(silent.HungUp());
}

TEST_F(BrokerTest, StrangersTakeNobodysPlace) {
  Broker::Options options;
  options.max_strangers = 2;
  options.max_connections = 3;
  Start(options);
  const BrokerClient owner = ConnectAttached();
  const BrokerClient one = Connect();
  const BrokerClient two = Connect();
  const BrokerClient three = Connect();
  EXPECT_TRUE(three.HungUp());
  EXPECT_EQ(owner.Map("y"), Outcome::kOk);
}

TEST_F(BrokerTest, ASessionTakesNoMoreThanItsPlaces) {
  SessionManager::Request request;
  request.id = "t";
  request.attach_key = std::string(broker::kKeyBytes, 'k');
  sessions_->Create(auth::Principal(auth::UidName(geteuid()), {}), request).value();
  Broker::Options options;
  options.max_session_connections = 2;
  // A refused client no longer counts as a stranger, and takes no place.
  options.max_strangers = 1;
  options.max_connections = 4;
  Start(options);
  const BrokerClient one = ConnectAttached();
  auto two = std::make_unique<BrokerClient>(ConnectAttached());
  for (int i = 0; i < 10; ++i) {
    const BrokerClient third = Connect();
    EXPECT_EQ(third.Attach("s", 'k'), Outcome::kLimit);
    EXPECT_TRUE(third.HungUp());
  }
  // A client without the key learns nothing.
  EXPECT_EQ(Connect().Attach("s", 'l'), Outcome::kDenied);
  while (broker_->connections() > 2) std::this_thread::yield();
  // Other sessions have their own places, and attached clients keep theirs.
  EXPECT_EQ(Connect().Attach("t", 'k'), Outcome::kOk);
  EXPECT_EQ(one.Map("y"), Outcome::kOk);
  EXPECT_EQ(two->Map("y"), Outcome::kOk);
  two.reset();
  while (broker_->connections() > 1) std::this_thread::yield();
  EXPECT_EQ(ConnectAttached().Map("y"), Outcome::kOk);
}

TEST_F(BrokerTest, WhoDoesNotReadIsCutOff) {
  Start();
  const BrokerClient client = ConnectAttached();
  const broker::RequestBytes check = broker::Encode(BrokerClient::About(Op::kCheck, 1));
  // Until the replies fill the socket. The broker serves others meanwhile.
  bool sent = true;
  for (int i = 0; i < 100'000 && sent; ++i) sent = client.Send(check.data(), check.size());
  EXPECT_FALSE(sent);
  EXPECT_EQ(ConnectAttached().Map("y"), Outcome::kOk);
}

TEST_F(BrokerTest, ABufferInUseIsRefusedForNow) {
  Start();
  const BrokerClient client = ConnectAttached();
  ASSERT_THAT(session_->StartRun(FillRequest()), IsOk());
  EXPECT_EQ(client.Map("x"), Outcome::kBufferInUse);
  RunAll();
  EXPECT_EQ(client.Map("x"), Outcome::kOk);
}

TEST_F(BrokerTest, TheBudgetIsKeptAndReturned) {
  Start();
  const BrokerClient client = ConnectAttached();
  ASSERT_EQ(client.Map("x"), Outcome::kOk);
  ASSERT_EQ(client.Map("y"), Outcome::kOk);
  EXPECT_EQ(budget_->files(), 2u);
  session_->RemoveBuffer("y");
  AwaitFiles(1);
  session_->End("the test wants it");
  AwaitFiles(0);
  EXPECT_EQ(engine_->chips()[0]->memory().used_bytes(), 0u);
}

// Deleted buffers make room for the next mapping, with a short delay.
TEST_F(BrokerTest, PagesThatAreBeingFreedAreWaitedFor) {
  std::promise<void> let_go;
  engine::PageReclaimer::Options reclaiming;
  reclaiming.punch = [hanging = let_go.get_future().share()](int, uint64_t) { hanging.wait(); };
  budget_ = std::make_shared<engine::SharingBudget>(1, 64 << 20, reclaiming);
  MakeBuffers(*session_, {{"z", 0, 4096}}).value();
  Start();
  const BrokerClient client = ConnectAttached();
  const BrokerClient other = ConnectAttached();
  ASSERT_EQ(client.Map("z"), Outcome::kOk);
  session_->RemoveBuffer("z");
  while (budget_->reclaiming() == 0) std::this_thread::yield();
  // But not forever.
  EXPECT_EQ(client.Map("y"), Outcome::kLimit);
  ASSERT_TRUE(client.Send(BrokerClient::MapRequest("y")));
  // When this one is refused, the first one has been tried, and still nobody waits for it.
  ASSERT_THAT(session_->StartRun(FillRequest()), IsOk());
  EXPECT_EQ(other.Map("x"), Outcome::kBufferInUse);
  let_go.set_value();
  const absl::optional<broker::Reply> reply = client.Receive();
  ASSERT_TRUE(reply.has_value());
  EXPECT_EQ(reply->outcome, Outcome::kOk);
}

TEST_F(BrokerTest, ConnectionsOfEndedSessionsGo) {
  Broker::Options options;
  options.sweep_interval = absl::Milliseconds(10);
  // At the first sweep; until then even a busy machine has time to attach.
  options.attach_timeout = absl::Seconds(2);
  Start(options);
  const BrokerClient client = ConnectAttached();
  session_->End("the test wants it");
  EXPECT_TRUE(client.HungUp());
}

TEST_F(BrokerTest, ManyAskAtOnceAndSomeLeave) {
  Start();
  for (int round = 0; round < 20; ++round) {
    const BrokerClient stays = ConnectAttached();
    {
      const BrokerClient leaves = ConnectAttached();
      ASSERT_TRUE(leaves.Send(BrokerClient::MapRequest("x")));
    }
    EXPECT_EQ(stays.Map("x"), Outcome::kOk);
    session_->RemoveBuffer("x");
    MakeBuffers(*session_, {{"x", 0, 256 << 10}}).value();
  }
}

TEST_F(BrokerTest, StopsWhileClientsAreThere) {
  Start();
  const BrokerClient client = ConnectAttached();
  ASSERT_TRUE(client.Send(BrokerClient::MapRequest("x")));
  broker_.reset();
  // With or without a reply.
  while (client.Receive().has_value()) {
  }
}

}  // namespace
}  // namespace pto::daemon::testing
