#include "daemon/shell/socket_guard.h"

#include <sys/socket.h>
#include <sys/stat.h>
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

using ::pto::testing::HasReason;
using ::pto::testing::IsOk;
using ::testing::HasSubstr;

bool Exists(const std::string& path) { return access(path.c_str(), F_OK) == 0; }

// Leaves a socket file behind, as a daemon that was killed does.
void MakeSocket(const std::string& path) {
  const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
  ASSERT_EQ(bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  close(fd);
}

TEST(SocketGuardTest, CleansUpBehindItself) {
  const testing::Directory directory;
  const std::string path = directory.path() + "/run/s";
  {
    auto guard = SocketGuard::Acquire(path);
    ASSERT_THAT(guard, IsOk());
    EXPECT_TRUE(Exists(path + ".lock"));
    MakeSocket(path);
  }
  EXPECT_FALSE(Exists(path));
  EXPECT_FALSE(Exists(path + ".lock"));
}

TEST(SocketGuardTest, RefusesASocketThatIsInUse) {
  const testing::Directory directory;
  const std::string path = directory.path() + "/s";
  auto guard = SocketGuard::Acquire(path);
  ASSERT_THAT(guard, IsOk());
  MakeSocket(path);
  const absl::Status status = SocketGuard::Acquire(path).status();
  EXPECT_THAT(status, HasReason(reason::kInstanceRunning));
  EXPECT_EQ(status.message(), absl::StrCat("another ptod (pid ", getpid(), ") holds unix:", path));
  EXPECT_TRUE(Exists(path));
}

TEST(SocketGuardTest, RemovesAStaleSocket) {
  const testing::Directory directory;
  const std::string path = directory.path() + "/s";
  MakeSocket(path);
  testing::WriteFile(path + ".lock", "4194305\n");
  auto guard = SocketGuard::Acquire(path);
  ASSERT_THAT(guard, IsOk());
  EXPECT_FALSE(Exists(path));
}

TEST(SocketGuardTest, LeavesOtherFilesAlone) {
  const testing::Directory directory;
  const std::string path = directory.path() + "/s";
  testing::WriteFile(path, "precious");
  const absl::Status status = SocketGuard::Acquire(path).status();
  EXPECT_THAT(status, HasReason(reason::kPathUnusable));
  EXPECT_THAT(std::string(status.message()), HasSubstr("not a socket"));
  EXPECT_EQ(testing::ReadFile(path), "precious");
  // Nor the target of a link, nor does a refusal leave its lock.
  const std::string link = directory.path() + "/link";
  ASSERT_EQ(symlink(path.c_str(), link.c_str()), 0);
  EXPECT_THAT(SocketGuard::Acquire(link), HasReason(reason::kPathUnusable));
  EXPECT_EQ(testing::ReadFile(path), "precious");
  EXPECT_FALSE(Exists(path + ".lock"));
}

TEST(SocketGuardTest, NeedsTheDirectoryAboveTheLast) {
  const testing::Directory directory;
  EXPECT_THAT(SocketGuard::Acquire(directory.path() + "/a/b/s"), HasReason(reason::kPathUnusable));
  EXPECT_FALSE(Exists(directory.path() + "/a"));
}

TEST(SocketUmaskTest, SocketsAreForOwnerAndGroup) {
  const testing::Directory directory;
  const mode_t before = umask(0022);
  {
    const SocketUmask mask;
    MakeSocket(directory.path() + "/s");
  }
  EXPECT_EQ(umask(before), 0022u);
  struct stat made = {};
  ASSERT_EQ(stat((directory.path() + "/s").c_str(), &made), 0);
  EXPECT_EQ(made.st_mode & 0777, 0660u);
}

}  // namespace
}  // namespace pto::daemon
