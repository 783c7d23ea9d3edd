#include "daemon/shell/signal_waiter.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <set>
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

TEST(SignalWaiterTest, NoSignalThatCanBeBlockedEndsTheProcess) {
  // What ends the process, stops it, or does nothing by default; see signal(7).
  const std::set<int> others = {SIGABRT, SIGSEGV, SIGBUS,  SIGILL,  SIGFPE,  SIGSYS,
                                SIGTRAP, SIGTSTP, SIGTTIN, SIGTTOU, SIGCONT, SIGCHLD,
                                SIGURG,  SIGKILL, SIGSTOP, SIGPIPE, SIGXFSZ, SIGWINCH};
  SignalWaiter waiter;
  for (int signal = 1; signal <= SIGRTMAX; ++signal) {
    if (others.count(signal) > 0 || (signal > SIGSYS && signal < SIGRTMIN)) continue;
    ASSERT_EQ(kill(getpid(), signal), 0);
    EXPECT_EQ(waiter.WaitFor(absl::Seconds(60)), absl::optional<int>(signal));
  }
  // These are ignored.
  kill(getpid(), SIGPIPE);
  kill(getpid(), SIGXFSZ);
  EXPECT_EQ(waiter.WaitFor(absl::ZeroDuration()), absl::nullopt);
}

TEST(SignalWaiterTest, WhatNobodyWaitedForIsDiscardedAtTheEnd) {
  {
    SignalWaiter waiter;
    for (const int signal : {SIGHUP, SIGTERM, SIGRTMIN, SIGRTMIN}) kill(getpid(), signal);
  }
  SUCCEED() << "alive";
}

TEST(SignalWaiterTest, LeavesAHandlerAlone) {
  struct sigaction handler = {};
  struct sigaction before = {};
  handler.sa_handler = [](int) {};
  ASSERT_EQ(sigaction(SIGPROF, &handler, &before), 0);
  {
    SignalWaiter waiter;
    kill(getpid(), SIGPROF);
    EXPECT_EQ(waiter.WaitFor(absl::ZeroDuration()), absl::nullopt);
  }
  sigaction(SIGPROF, &before, nullptr);
}

TEST(SignalWaiterTest, KnowsWhatTheyMean) {
  EXPECT_EQ(ActionOf(SIGTERM), SignalAction::kStop);
  EXPECT_EQ(ActionOf(SIGINT), SignalAction::kStop);
  EXPECT_EQ(ActionOf(SIGHUP), SignalAction::kReload);
  EXPECT_EQ(ActionOf(SIGUSR1), SignalAction::kReopenLogs);
  EXPECT_EQ(ActionOf(SIGUSR2), SignalAction::kDump);
  EXPECT_EQ(ActionOf(SIGQUIT), SignalAction::kDump);
  EXPECT_EQ(ActionOf(SIGALRM), SignalAction::kIgnore);
  EXPECT_EQ(ActionOf(SIGRTMAX), SignalAction::kIgnore);
  EXPECT_EQ(SignalName(SIGTERM), "SIGTERM");
  EXPECT_EQ(SignalName(SIGRTMIN + 3), "SIGRTMIN+3");
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
