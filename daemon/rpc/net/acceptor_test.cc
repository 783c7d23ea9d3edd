#include "daemon/rpc/net/acceptor.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "daemon/rpc/net/connections.h"
#include "daemon/rpc/net/testing_frames.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/error.h"
#include "runtime/base/mutex.h"
#include "runtime/base/status_matchers.h"

namespace pto::daemon::rpc::testing {
namespace {

using ::pto::testing::HasReason;
using ::pto::testing::IsOk;
using ::testing::HasSubstr;

class AcceptorTest : public ::testing::Test {
 protected:
  AcceptorTest() {
    char directory[] = "/tmp/rpc-XXXXXX";
    EXPECT_NE(mkdtemp(directory), nullptr);
    directory_ = directory;
    path_ = directory_ + "/s";
    limits_.is_operator = [](const Peer&) { return false; };
  }
  ~AcceptorTest() override {
    acceptor_ = nullptr;
    CloseAll();
    EXPECT_EQ(rmdir(directory_.c_str()), 0) << "the socket is still there";
  }

  void Start(absl::Duration handshake_timeout = absl::Seconds(60)) {
    connections_ = std::make_shared<Connections>(limits_);
    absl::StatusOr<Listener> listener = Listener::Bind("unix:" + path_);
    ASSERT_THAT(listener, IsOk());
    std::vector<Listener> listeners;
    listeners.push_back(*std::move(listener));
    acceptor_ = std::make_unique<Acceptor>(
        std::move(listeners), connections_,
        [this](int file) {
          MutexLock lock(mutex_);
          files_.push_back(file);
          changed_.NotifyAll();
        },
        Acceptor::Options{handshake_timeout});
    ASSERT_THAT(acceptor_->Start(), IsOk());
  }
  // The descriptor of the connection that was accepted as number `index`.
  int Accepted(size_t index) {
    MutexLock lock(mutex_);
    while (files_.size() <= index) changed_.Wait(mutex_);
    return files_[index];
  }
  void CloseAll() {
    MutexLock lock(mutex_);
    for (const int file : files_) close(file);
    files_.clear();
  }
  // Whether the connection is refused, with this text.
  static void ExpectRefused(RawClient& client, const std::string& why) {
    EXPECT_TRUE(client.WaitForEnd());
    // SETTINGS and GOAWAY.
    ASSERT_GT(client.received().size(), 26u);
    EXPECT_EQ(client.received()[3], 4);
    EXPECT_EQ(client.received()[12], 7);
    EXPECT_THAT(client.received(), HasSubstr(why));
  }

  std::string directory_;
  std::string path_;
  ConnectionLimits limits_;
  std::shared_ptr<Connections> connections_;
  Mutex mutex_;
  CondVar changed_;
  std::vector<int> files_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<Acceptor> acceptor_;
};

TEST_F(AcceptorTest, KnowsThePeer) {
  Start();
  const RawClient first(path_);
  const RawClient second(path_);
  const Connection* const one = ConnectionTable::Find(Accepted(0));
  const Connection* const two = ConnectionTable::Find(Accepted(1));
  ASSERT_NE(one, nullptr);
  ASSERT_NE(two, nullptr);
  EXPECT_EQ(one->peer().transport, Peer::Transport::kUnix);
  EXPECT_EQ(one->peer().uid, getuid());
  EXPECT_EQ(one->peer().gid, getgid());
  EXPECT_EQ(one->peer().pid, getpid());
  EXPECT_NE(one->peer().connection, 0u);
  EXPECT_NE(one->peer().connection, two->peer().connection);
}

TEST_F(AcceptorTest, ForgetsAConnectionWhenItsDescriptorIsClosed) {
  Start();
  const RawClient client(path_);
  const int file = Accepted(0);
  EXPECT_EQ(connections_->stats().open, 1u);
  CloseAll();
  EXPECT_EQ(ConnectionTable::Find(file), nullptr);
  EXPECT_EQ(connections_->stats().open, 0u);
  EXPECT_EQ(connections_->stats().accepted, 1u);
}

TEST_F(AcceptorTest, RefusesMoreThanAUserMayHave) {
  limits_.max_connections = 100;
  limits_.max_user_connections = 2;
  Start();
  const RawClient first(path_);
  const RawClient second(path_);
  Accepted(1);
  RawClient third(path_);
  ExpectRefused(third, "2 are allowed");
  EXPECT_EQ(connections_->stats().refused, 1u);
  CloseAll();
  const RawClient fourth(path_);
  Accepted(0);
}

TEST_F(AcceptorTest, KeepsRoomForOperators) {
  limits_.max_connections = 5;
  limits_.max_user_connections = 100;
  limits_.operator_connections = 2;
  bool operators = false;
  limits_.is_operator = [&operators](const Peer&) { return operators; };
  Start();
  std::vector<std::unique_ptr<RawClient>> users;
  for (int i = 0; i < 3; ++i) users.push_back(std::make_unique<RawClient>(path_));
  Accepted(2);
  RawClient refused(path_);
  ExpectRefused(refused, "3 are allowed");
  operators = true;
  const RawClient first(path_);
  const RawClient second(path_);
  Accepted(4);
  RawClient third(path_);
  ExpectRefused(third, "5 are allowed");
}

TEST_F(AcceptorTest, EndsAConnectionThatDoesNotBegin) {
  Start(absl::Milliseconds(50));
  RawClient silent(path_);
  EXPECT_TRUE(silent.WaitForEnd());
  EXPECT_EQ(connections_->stats().ended, 1u);
  RawClient quick(path_);
  msghdr message = {};
  std::string hello = Hello();
  iovec piece = {hello.data(), hello.size()};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  // As gRPC would have read it.
  EXPECT_TRUE(ConnectionTable::Find(Accepted(1))->Received(message, hello.size()));
  RawClient other(path_);
  EXPECT_TRUE(other.WaitForEnd());
  EXPECT_EQ(connections_->stats().ended, 2u);
}

TEST_F(AcceptorTest, SeesWhatIsReadWithRecvmsg) {
  Start();
  RawClient client(path_);
  EXPECT_TRUE(client.Send("GET / HTTP/1.1\r\n\r\n"));
  const int file = Accepted(0);
  fcntl(file, F_SETFL, 0);  // wait
  char bytes[100];
  iovec piece = {bytes, sizeof bytes};
  msghdr message = {};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  EXPECT_EQ(recvmsg(file, &message, 0), -1);
  EXPECT_EQ(errno, ECONNRESET);
  EXPECT_TRUE(client.WaitForEnd());
}

// The limit of open descriptors, until the end of the test.
class DescriptorLimit {
 public:
  explicit DescriptorLimit(rlim_t most) {
    getrlimit(RLIMIT_NOFILE, &before_);
    rlimit limit = before_;
    limit.rlim_cur = most;
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  }
  ~DescriptorLimit() { setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_ = {};
};

TEST_F(AcceptorTest, GoesOnWhenDescriptorsAreFreeAgain) {
  Start();
  std::vector<std::unique_ptr<RawClient>> clients;
  for (int i = 0; i < 3; ++i) clients.push_back(std::make_unique<RawClient>(path_));
  Accepted(2);
  // As many as there are: the next descriptor is too much for the acceptor, and enough for a client
  // whose socket exists.
  const int next = dup(0);
  close(next);
  const int kept = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  EXPECT_EQ(kept, next);
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  path_.copy(address.sun_path, sizeof address.sun_path - 1);
  {
    const DescriptorLimit full(static_cast<rlim_t>(next) + 1);
    ASSERT_EQ(connect(kept, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    // Refused with the descriptor that was kept for it.
    char bytes[256];
    std::string received;
    ssize_t size = 0;
    while ((size = recv(kept, bytes, sizeof bytes, 0)) > 0) received.append(bytes, size);
    EXPECT_THAT(received, HasSubstr("no free file descriptor"));
  }
  close(kept);
  EXPECT_EQ(connections_->stats().refused, 1u);
  const RawClient again(path_);
  Accepted(3);
}

TEST(ListenerTest, ReportsTheRealPortAndRemovesItsSocket) {
  const absl::StatusOr<Listener> tcp = Listener::Bind("127.0.0.1:0");
  ASSERT_THAT(tcp, IsOk());
  EXPECT_TRUE(absl::StartsWith(tcp->address(), "127.0.0.1:"));
  EXPECT_FALSE(absl::EndsWith(tcp->address(), ":0"));
  EXPECT_THAT(Listener::Bind(tcp->address()), HasReason(reason::kListenFailed));
  EXPECT_THAT(Listener::Bind("localhost:0"), IsOk());

  const std::string path = absl::StrCat("/tmp/rpc-listener-", getpid());
  {
    const absl::StatusOr<Listener> first = Listener::Bind("unix:" + path);
    ASSERT_THAT(first, IsOk());
    EXPECT_EQ(access(path.c_str(), F_OK), 0);
    EXPECT_THAT(Listener::Bind("unix:" + path), HasReason(reason::kListenFailed));
    EXPECT_EQ(access(path.c_str(), F_OK), 0) << "the second has removed the socket of the first";
  }
  EXPECT_NE(access(path.c_str(), F_OK), 0);
  EXPECT_THAT(Listener::Bind("127.0.0.1:port"), HasReason(reason::kListenFailed));
  EXPECT_THAT(Listener::Bind("unix:" + std::string(200, 'x')), HasReason(reason::kListenFailed));
}

}  // namespace
}  // namespace pto::daemon::rpc::testing
