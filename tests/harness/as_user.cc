#include "tests/harness/as_user.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <thread>

#include "absl/strings/str_cat.h"
#include "grpcpp/create_channel_posix.h"
#include "gtest/gtest.h"

namespace pto::testing {
namespace {

// Only of this thread: the function of the C library would change all.
bool Become(uid_t user) { return syscall(SYS_setresuid, user, user, user) == 0; }

// The socket of a connection of this thread's user; -1 if there is none.
int Connect(const std::string& path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  const int number = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (connect(number, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) {
    return number;
  }
  ADD_FAILURE() << "connect to " << path << ": " << std::strerror(errno);
  close(number);
  return -1;
}

}  // namespace

bool CanBecome(uid_t user) {
  bool can = false;
  std::thread([&] { can = Become(user); }).join();
  return can;
}

void RunAs(uid_t user, const std::function<void()>& work) {
  std::thread([&] {
    if (Become(user)) {
      work();
    } else {
      ADD_FAILURE() << "cannot become user " << user << ": " << std::strerror(errno);
    }
  }).join();
}

std::shared_ptr<grpc::Channel> ChannelAs(uid_t user, const std::string& socket_path) {
  static std::atomic<int> next{1};
  int number = -1;
  RunAs(user, [&] { number = Connect(socket_path); });
  return grpc::CreateInsecureChannelFromFd(absl::StrCat("user-", user, "-", next++), number);
}

void OpenTo(const std::string& directory) {
  EXPECT_EQ(chmod(directory.c_str(), 0711), 0);
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    if (!entry.is_socket()) continue;
    EXPECT_EQ(chmod(entry.path().c_str(), 0666), 0);
  }
}

}  // namespace pto::testing
