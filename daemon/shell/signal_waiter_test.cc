#include "daemon/shell/signal_waiter.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <thread>

#include "gtest/gtest.h"

namespace pto::daemon {
namespace {

TEST(SignalWaiterTest, ReturnsTheSignal) {
  SignalWaiter waiter;
  kill(getpid(), SIGTERM);
  EXPECT_EQ(waiter.Wait(), SIGTERM);
  kill(getpid(), SIGINT);
  EXPECT_EQ(waiter.Wait(), SIGINT);
}

TEST(SignalWaiterTest, WaitsForASignalFromAnotherThread) {
  SignalWaiter waiter;
  std::thread sender([] { kill(getpid(), SIGTERM); });
  EXPECT_EQ(waiter.Wait(), SIGTERM);
  sender.join();
}

TEST(SignalWaiterTest, ReturnsWithoutASignalWhenTheTimeIsUp) {
  SignalWaiter waiter;
  EXPECT_EQ(waiter.WaitFor(absl::Milliseconds(1)), absl::nullopt);
  EXPECT_EQ(waiter.WaitFor(-absl::Seconds(1)), absl::nullopt);
  kill(getpid(), SIGTERM);
  EXPECT_EQ(waiter.WaitFor(absl::Seconds(60)), absl::optional<int>(SIGTERM));
}

TEST(SignalWaiterTest, AClosedPeerIsAnErrorOfWrite) {
  SignalWaiter waiter;
  int pair[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
  close(pair[0]);
  EXPECT_EQ(write(pair[1], "x", 1), -1);
  EXPECT_EQ(errno, EPIPE);
  close(pair[1]);
}

TEST(SignalWaiterTest, RestoresWhatWasBefore) {
  sigset_t before;
  pthread_sigmask(SIG_SETMASK, nullptr, &before);
  {
    SignalWaiter waiter;
  }
  sigset_t after;
  pthread_sigmask(SIG_SETMASK, nullptr, &after);
  EXPECT_EQ(sigismember(&before, SIGTERM), sigismember(&after, SIGTERM));
  EXPECT_EQ(sigismember(&after, SIGTERM), 0);
}

}  // namespace
}  // namespace pto::daemon
