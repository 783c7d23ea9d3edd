#include "daemon/shell/file_lock.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

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

TEST(FileLockTest, HoldsThePidAndGoesWithItsFile) {
  const testing::Directory directory;
  const std::string path = directory.path() + "/x.lock";
  {
    auto lock = FileLock::Acquire(path, "x");
    ASSERT_THAT(lock, IsOk());
    EXPECT_EQ(testing::ReadFile(path), absl::StrCat(getpid(), "\n"));
  }
  EXPECT_NE(access(path.c_str(), F_OK), 0);
  EXPECT_THAT(FileLock::Acquire(path, "x"), IsOk());
}

TEST(FileLockTest, NamesTheHolder) {
  const testing::Directory directory;
  const std::string path = directory.path() + "/x.lock";
  auto lock = FileLock::Acquire(path, "unix:/a/b");
  ASSERT_THAT(lock, IsOk());
  const absl::Status status = FileLock::Acquire(path, "unix:/a/b").status();
  EXPECT_THAT(status, HasReason(reason::kInstanceRunning));
  EXPECT_EQ(status.message(), absl::StrCat("another ptod (pid ", getpid(), ") holds unix:/a/b"));
  // The refused one has not harmed the holder's file.
  EXPECT_EQ(testing::ReadFile(path), absl::StrCat(getpid(), "\n"));
}

TEST(FileLockTest, ADeadHoldersFileIsTakenOver) {
  const testing::Directory directory;
  const std::string path = directory.path() + "/x.lock";
  testing::WriteFile(path, "1234567890123\n");
  auto lock = FileLock::Acquire(path, "x");
  ASSERT_THAT(lock, IsOk());
  EXPECT_EQ(testing::ReadFile(path), absl::StrCat(getpid(), "\n"));
}

TEST(FileLockTest, ComesBackWhenItsHolderIsKilled) {
  const testing::Directory directory;
  const std::string path = directory.path() + "/x.lock";
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    auto lock = FileLock::Acquire(path, "x");
    const char result = lock.ok() ? 'y' : 'n';
    if (write(ready[1], &result, 1) != 1) _exit(1);
    pause();
  }
  char result = 0;
  ASSERT_EQ(read(ready[0], &result, 1), 1);
  EXPECT_EQ(result, 'y');
  const absl::Status status = FileLock::Acquire(path, "x").status();
  EXPECT_THAT(status, HasReason(reason::kInstanceRunning));
  EXPECT_THAT(std::string(status.message()), HasSubstr(absl::StrCat("pid ", child)));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_THAT(FileLock::Acquire(path, "x"), IsOk());
  close(ready[0]);
  close(ready[1]);
}

// One removes the file while others try to lock it: never do two hold it.
TEST(FileLockTest, OnlyOneHoldsItWhileItComesAndGoes) {
  const testing::Directory directory;
  const std::string path = directory.path() + "/x.lock";
  std::atomic<int> holders = 0;
  std::atomic<int> held = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int j = 0; j < 100; ++j) {
        auto lock = FileLock::Acquire(path, "x");
        if (!lock.ok()) continue;
        EXPECT_EQ(++holders, 1);
        ++held;
        std::this_thread::yield();
        --holders;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(held, 0);
}

TEST(FileLockTest, SaysWhatIsWrongWithThePath) {
  const absl::Status status = FileLock::Acquire("/nonexistent/x.lock", "x").status();
  EXPECT_THAT(status, HasReason(reason::kPathUnusable));
  EXPECT_THAT(std::string(status.message()), HasSubstr("/nonexistent/x.lock"));
}

TEST(MakeLastDirectoryTest, MakesOneLevelOnly) {
  const testing::Directory directory;
  EXPECT_THAT(MakeLastDirectory(directory.path()), IsOk());
  EXPECT_THAT(MakeLastDirectory(directory.path() + "/a"), IsOk());
  struct stat made = {};
  ASSERT_EQ(stat((directory.path() + "/a").c_str(), &made), 0);
  EXPECT_TRUE(S_ISDIR(made.st_mode));
  EXPECT_EQ(made.st_mode & 0007, 0u);
  EXPECT_THAT(MakeLastDirectory(directory.path() + "/b/c"), HasReason(reason::kPathUnusable));
  testing::WriteFile(directory.path() + "/file", "");
  EXPECT_THAT(MakeLastDirectory(directory.path() + "/file"), HasReason(reason::kPathUnusable));
}

TEST(LockStateDirectoryTest, OneDaemonPerDirectory) {
  const testing::Directory directory;
  const std::string state = directory.path() + "/state";
  auto lock = LockStateDirectory(state);
  ASSERT_THAT(lock, IsOk());
  const absl::Status status = LockStateDirectory(state).status();
  EXPECT_THAT(status, HasReason(reason::kInstanceRunning));
  EXPECT_THAT(std::string(status.message()), HasSubstr(state));
}

TEST(LockStateDirectoryTest, TheDirectoryStaysLockedWhenTheFileIsRemoved) {
  const testing::Directory directory;
  const std::string state = directory.path() + "/state";
  auto lock = LockStateDirectory(state);
  ASSERT_THAT(lock, IsOk());
  for (int i = 0; i < 2; ++i) {
    unlink((state + "/lock").c_str());
    EXPECT_THAT(LockStateDirectory(state), HasReason(reason::kInstanceRunning));
  }
  lock->reset();
  EXPECT_THAT(LockStateDirectory(state), IsOk());
}

// An earlier release locks only the file.
TEST(LockStateDirectoryTest, AnEarlierReleaseHoldsTheFile) {
  const testing::Directory directory;
  const std::string state = directory.path() + "/state";
  ASSERT_THAT(MakeLastDirectory(state), IsOk());
  auto file = FileLock::Acquire(state + "/lock", "the state directory");
  ASSERT_THAT(file, IsOk());
  EXPECT_THAT(LockStateDirectory(state), HasReason(reason::kInstanceRunning));
  file->reset();
  EXPECT_THAT(LockStateDirectory(state), IsOk());
}

}  // namespace
}  // namespace pto::daemon
