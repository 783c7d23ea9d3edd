#include "comm/shm/process_identity.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace pto::comm {
namespace {

TEST(ProcessIdentity, OfThisProcess) {
  const uint64_t identity = OwnIdentity();
  EXPECT_EQ(PidOf(identity), getpid());
  EXPECT_TRUE(IsProcessAlive(identity));
  // The same pid with another start time: an earlier process with this pid.
  EXPECT_FALSE(IsProcessAlive(identity ^ 1));
  EXPECT_FALSE(IsProcessAlive(0));
  EXPECT_NE(PidNamespace(), 0u);
}

TEST(ProcessIdentity, AZombieIsDead) {
  int channel[2];
  ASSERT_EQ(pipe(channel), 0);
  const pid_t child = fork();
  if (child == 0) {
    const uint64_t identity = OwnIdentity();
    const bool sent = write(channel[1], &identity, sizeof(identity)) == sizeof(identity);
    while (sent) pause();
    _exit(1);
  }
  uint64_t identity = 0;
  ASSERT_EQ(read(channel[0], &identity, sizeof(identity)), ssize_t{sizeof(identity)});
  EXPECT_EQ(PidOf(identity), child);
  EXPECT_TRUE(IsProcessAlive(identity));
  kill(child, SIGKILL);
  const int fd = static_cast<int>(syscall(SYS_pidfd_open, child, 0));
  pollfd entry{.fd = fd, .events = POLLIN, .revents = 0};
  ASSERT_EQ(poll(&entry, 1, 20'000), 1);
  EXPECT_FALSE(IsProcessAlive(identity));
  waitpid(child, nullptr, 0);
  EXPECT_FALSE(IsProcessAlive(identity));
  close(fd);
  close(channel[0]);
  close(channel[1]);
}

}  // namespace
}  // namespace pto::comm
