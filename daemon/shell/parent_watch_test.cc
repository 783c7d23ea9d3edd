#include "daemon/shell/parent_watch.h"

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <memory>

#include "gtest/gtest.h"
#include "runtime/base/error.h"
#include "runtime/base/file_descriptor.h"
#include "runtime/base/status_matchers.h"

namespace pto::daemon {
namespace {

constexpr int kEventuallyMs = 30'000;

void Say(int pipe, char word) { EXPECT_EQ(write(pipe, &word, 1), 1); }

// 0 if nothing comes in time, or if nobody is left who could say something.
char Hear(int pipe) {
  pollfd ready = {pipe, POLLIN, 0};
  char word = 0;
  if (poll(&ready, 1, kEventuallyMs) != 1 || read(pipe, &word, 1) != 1) return 0;
  return word;
}

TEST(ParentWatchTest, NoticesThatTheParentWasKilled) {
  int pipes[2];
  ASSERT_EQ(pipe(pipes), 0);
  const pid_t parent = fork();
  if (parent == 0) {
    const pid_t self = getpid();
    if (fork() == 0) {
      int status = 1;
      {
        const auto watch = ParentWatch::Start(self, [&] {
          Say(pipes[1], 'g');
          _exit(0);
        });
        if (watch.ok()) {
          Say(pipes[1], 'w');
          poll(nullptr, 0, 2 * kEventuallyMs);
          status = 2;
        }
      }
      _exit(status);
    }
    while (true) pause();
  }
  close(pipes[1]);
  const FileDescriptor from(pipes[0]);
  EXPECT_EQ(Hear(from.get()), 'w');
  ASSERT_EQ(kill(parent, SIGKILL), 0);
  ASSERT_EQ(waitpid(parent, nullptr, 0), parent);
  EXPECT_EQ(Hear(from.get()), 'g');
}

TEST(ParentWatchTest, EndsWhileTheParentLives) {
  bool gone = false;
  {
    const auto watch = ParentWatch::Start(getppid(), [&] { gone = true; });
    ASSERT_THAT(watch, testing::IsOk());
  }
  EXPECT_FALSE(gone);
}

TEST(ParentWatchTest, RefusesAnotherProcess) {
  const auto watch = ParentWatch::Start(getpid(), [] {});
  EXPECT_THAT(watch, testing::HasReason(reason::kConfigInvalid));
}

}  // namespace
}  // namespace pto::daemon
