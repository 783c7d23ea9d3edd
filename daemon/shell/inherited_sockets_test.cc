#include "daemon/shell/inherited_sockets.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/error.h"
#include "runtime/base/status_matchers.h"
#include "tests/harness/directory.h"

namespace pto::daemon {
namespace {

using ::pto::testing::Directory;
using ::pto::testing::HasReason;
using ::pto::testing::IsOk;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

// A socket at a descriptor of the test's choice, as after an exec.
void ListenAs(int wanted, const sockaddr* name, socklen_t size, int type = SOCK_STREAM) {
  const int file = socket(name->sa_family, type, 0);
  ASSERT_EQ(bind(file, name, size), 0);
  if (type == SOCK_STREAM) {
    ASSERT_EQ(listen(file, 1), 0);
  }
  ASSERT_EQ(dup2(file, wanted), wanted);
  close(file);
}

void ListenAtPath(int wanted, const std::string& path, int type = SOCK_STREAM) {
  sockaddr_un name = {};
  name.sun_family = AF_UNIX;
  std::memcpy(name.sun_path, path.data(), path.size());
  ListenAs(wanted, reinterpret_cast<const sockaddr*>(&name), sizeof name, type);
}

int ListenOnLoopback(int wanted) {
  sockaddr_in name = {};
  name.sin_family = AF_INET;
  name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ListenAs(wanted, reinterpret_cast<const sockaddr*>(&name), sizeof name);
  socklen_t size = sizeof name;
  EXPECT_EQ(getsockname(wanted, reinterpret_cast<sockaddr*>(&name), &size), 0);
  return ntohs(name.sin_port);
}

// Far from the descriptors that the test itself uses.
constexpr int kFirst = 200;

TEST(InheritedSocketsTest, AreFoundByTheirAddresses) {
  const Directory directory;
  const std::string unix_address = "unix:" + directory.path() + "/s";
  ListenAtPath(kFirst, directory.path() + "/s");
  const std::string tcp_address = absl::StrCat("127.0.0.1:", ListenOnLoopback(kFirst + 1));
  absl::StatusOr<InheritedSockets> sockets = InheritedSockets::Take(kFirst, 2);
  ASSERT_THAT(sockets, IsOk());
  EXPECT_THAT(sockets->unclaimed(), ElementsAre(unix_address, tcp_address));

  EXPECT_EQ(sockets->Claim("unix:/elsewhere"), -1);
  EXPECT_EQ(sockets->Claim(unix_address), kFirst);
  EXPECT_NE(fcntl(kFirst, F_GETFD) & FD_CLOEXEC, 0) << "kernel hosts would inherit it";
  EXPECT_NE(fcntl(kFirst, F_GETFL) & O_NONBLOCK, 0) << "accept would block";
  EXPECT_EQ(sockets->Claim(unix_address), -1) << "two would own it";
  EXPECT_THAT(sockets->unclaimed(), ElementsAre(tcp_address));
  EXPECT_EQ(sockets->Claim(tcp_address), kFirst + 1);
}

TEST(InheritedSocketsTest, WhatDoesNotListenIsRefused) {
  const Directory directory;
  ListenAtPath(kFirst, directory.path() + "/datagrams", SOCK_DGRAM);
  EXPECT_THAT(InheritedSockets::Take(kFirst, 1), HasReason(reason::kListenFailed));
  ASSERT_EQ(dup2(STDERR_FILENO, kFirst), kFirst);
  EXPECT_THAT(InheritedSockets::Take(kFirst, 1), HasReason(reason::kListenFailed));
  EXPECT_THAT(InheritedSockets::Take(kFirst, 1), HasReason(reason::kListenFailed)) << "not open";
}

TEST(InheritedSocketsTest, ThoseOfAnotherProcessAreLeftAlone) {
  setenv("LISTEN_PID", absl::StrCat(getppid()).c_str(), 1);  // NOLINT: one thread
  setenv("LISTEN_FDS", "1", 1);                              // NOLINT: one thread
  const absl::StatusOr<InheritedSockets> sockets = InheritedSockets::FromEnvironment();
  ASSERT_THAT(sockets, IsOk());
  EXPECT_THAT(sockets->unclaimed(), IsEmpty());
  EXPECT_EQ(getenv("LISTEN_PID"), nullptr) << "children would take them";  // NOLINT: one thread
  EXPECT_EQ(getenv("LISTEN_FDS"), nullptr);                                // NOLINT: one thread
}

}  // namespace
}  // namespace pto::daemon
