#include "daemon/shell/systemd_notifier.h"

#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "runtime/base/error.h"
#include "runtime/base/status_matchers.h"
#include "tests/harness/directory.h"

namespace pto::daemon {
namespace {

using ::pto::testing::HasReason;
using ::pto::testing::IsOk;

// Listens as systemd does. A name that begins with '@' is no file.
class FakeSystemd {
 public:
  explicit FakeSystemd(const std::string& name) : fd_(socket(AF_UNIX, SOCK_DGRAM, 0)) {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, name.data(), name.size());
    if (name[0] == '@') address.sun_path[0] = '\0';
    EXPECT_EQ(bind(fd_, reinterpret_cast<const sockaddr*>(&address),
                   offsetof(sockaddr_un, sun_path) + name.size()),
              0);
  }
  ~FakeSystemd() { close(fd_); }
  std::string Receive() {
    char text[512];
    const ssize_t size = recv(fd_, text, sizeof text, 0);
    return std::string(text, size > 0 ? size : 0);
  }

 private:
  const int fd_;
};

TEST(SystemdNotifierTest, SendsToAPath) {
  const testing::Directory directory;
  const std::string path = directory.path() + "/notify";
  FakeSystemd systemd(path);
  const SystemdNotifier notifier(path);
  EXPECT_THAT(notifier.Ready("4 chips\nat work"), IsOk());
  EXPECT_EQ(systemd.Receive(), "READY=1\nSTATUS=4 chips at work\n");
  EXPECT_THAT(notifier.Stopping("draining"), IsOk());
  EXPECT_EQ(systemd.Receive(), "STOPPING=1\nSTATUS=draining\n");
  EXPECT_THAT(notifier.Alive(), IsOk());
  EXPECT_EQ(systemd.Receive(), "WATCHDOG=1\n");
}

TEST(SystemdNotifierTest, SendsToAnAbstractName) {
  const std::string name = absl::StrCat("@ptod-notify-test-", getpid());
  FakeSystemd systemd(name);
  EXPECT_THAT(SystemdNotifier(name).Ready("up"), IsOk());
  EXPECT_EQ(systemd.Receive(), "READY=1\nSTATUS=up\n");
}

TEST(SystemdNotifierTest, DoesNothingWithoutSystemd) {
  unsetenv("NOTIFY_SOCKET");
  EXPECT_THAT(SystemdNotifier::FromEnvironment().Ready("up"), IsOk());
  setenv("NOTIFY_SOCKET", "/nonexistent/notify", 1);
  EXPECT_THAT(SystemdNotifier::FromEnvironment().Ready("up"), HasReason(reason::kPathUnusable));
  unsetenv("NOTIFY_SOCKET");
}

TEST(SystemdNotifierTest, RefusesWhatIsNoSocket) {
  EXPECT_THAT(SystemdNotifier("relative").Ready("up"), HasReason(reason::kPathUnusable));
  EXPECT_THAT(SystemdNotifier("/" + std::string(200, 'x')).Ready("up"),
              HasReason(reason::kPathUnusable));
}

}  // namespace
}  // namespace pto::daemon
