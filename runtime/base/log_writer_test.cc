#include "runtime/base/log_writer.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/log.h"

namespace pto {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::chrono::milliseconds kAmple(20'000);
constexpr std::chrono::milliseconds kShort(50);

// A pipe of one page, with a reader that may take its time.
class LogWriterTest : public ::testing::Test {
 protected:
  LogWriterTest() {
    EXPECT_EQ(pipe2(ends_, O_CLOEXEC), 0);
    EXPECT_GT(fcntl(ends_[1], F_SETPIPE_SZ, 4096), 0);
  }
  ~LogWriterTest() override {
    for (const int end : ends_) close(end);
  }

  LogWriter::Options IntoPipe(size_t max_bytes = 1 << 20) const {
    LogWriter::Options options;
    options.fd = ends_[1];
    options.max_bytes = max_bytes;
    options.patience = kShort;
    return options;
  }

  // What is in the pipe after `last` has come.
  std::vector<std::string> ReadUntil(const std::string& last) const {
    std::string text;
    char bytes[4096];
    while (!absl::StrContains(text, last) || !absl::EndsWith(text, "\n")) {
      const ssize_t got = read(ends_[0], bytes, sizeof bytes);
      if (got <= 0) break;
      text.append(bytes, static_cast<size_t>(got));
    }
    return absl::StrSplit(text, '\n', absl::SkipEmpty());
  }

  // Queues lines until the writer has begun to write and cannot go on.
  static void FillPipe() {
    for (int i = 0; i < 64; ++i) PTO_LOG(kInfo, std::string(100, 'f'));
    EXPECT_FALSE(LogWriter::Flush(kShort));
  }

  int ends_[2] = {-1, -1};
};

TEST_F(LogWriterTest, WritesLinesInOrder) {
  const LogWriter writer(IntoPipe());
  PTO_LOG(kInfo, "first");
  LogWriter::Write("as it is\n");
  PTO_LOG(kInfo, "second");
  EXPECT_TRUE(LogWriter::Flush(kAmple));
  EXPECT_THAT(ReadUntil("second"),
              ElementsAre(HasSubstr("first"), "as it is", HasSubstr("second")));
}

TEST_F(LogWriterTest, NobodyWaitsForTheReader) {
  // Well below what a thread that waits for the reader would take: for ever.
  const LogWriter writer(IntoPipe(16 << 10));
  FillPipe();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([] {
      for (int i = 0; i < 1000; ++i) PTO_LOG(kInfo, "line", {{"i", i}});
    });
  }
  for (std::thread& thread : threads) thread.join();
  // Of 4,064 lines, each is either written or counted.
  uint64_t dropped = 0;
  uint64_t written = 0;
  while (written + dropped < 4064) {
    for (const std::string& line : ReadUntil("lines were dropped")) {
      const size_t at = line.find(" lines=");
      uint64_t lines = 0;
      if (at == std::string::npos) {
        ++written;
      } else {
        ASSERT_TRUE(absl::SimpleAtoi(line.substr(at + 7), &lines)) << line;
        EXPECT_THAT(line, HasSubstr("WARNING"));
      }
      dropped += lines;
    }
  }
  EXPECT_GT(dropped, 0u);
  EXPECT_EQ(written + dropped, 4064u);
  // There is room again.
  PTO_LOG(kInfo, "later");
  EXPECT_TRUE(LogWriter::Flush(kAmple));
  EXPECT_THAT(ReadUntil("later"), ElementsAre(HasSubstr("later")));
}

TEST_F(LogWriterTest, WhatTheDescriptorRefusedIsCounted) {
  const int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
  ASSERT_GE(full, 0);
  LogWriter::Options options = IntoPipe();
  options.fd = full;
  {
    const LogWriter writer(options);
    PTO_LOG(kInfo, "lost");
    PTO_LOG(kInfo, "lost too");
    EXPECT_TRUE(LogWriter::Flush(kAmple));
    // The disk has room again.
    ASSERT_EQ(dup2(ends_[1], full), full);
    PTO_LOG(kInfo, "kept");
  }
  EXPECT_THAT(ReadUntil("dropped"),
              ElementsAre(HasSubstr("kept"), AllOf(HasSubstr("dropped"), HasSubstr("lines=2"))));
  close(full);
}

TEST_F(LogWriterTest, WritesEverythingAtTheEnd) {
  LogWriter::Options options = IntoPipe();
  options.patience = kAmple;
  std::thread reader;
  std::vector<std::string> lines;
  {
    const LogWriter writer(options);
    for (int i = 0; i < 500; ++i) PTO_LOG(kInfo, "line", {{"i", i}});
    PTO_LOG(kInfo, "the end");
    reader = std::thread([&] { lines = ReadUntil("the end"); });
  }
  reader.join();
  EXPECT_EQ(lines.size(), 501u);
}

TEST_F(LogWriterTest, ItsEndDoesNotWaitForTheReaderForEver) {
  {
    const LogWriter writer(IntoPipe());
    FillPipe();
  }
  // Still nobody waits.
  PTO_LOG(kInfo, "after the end");
  ReadUntil("after the end");
  EXPECT_TRUE(LogWriter::Flush(kAmple));
}

TEST_F(LogWriterTest, WithoutOneLogWritesByItself) {
  {
    const LogWriter writer(IntoPipe());
  }
  ::testing::internal::CaptureStderr();
  PTO_LOG(kInfo, "alone");
  LogWriter::Write("as it is\n");
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("alone\nas it is\n"));
}

TEST_F(LogWriterTest, AChildOfForkWritesByItself) {
  const LogWriter writer(IntoPipe());
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends_[1], STDERR_FILENO);
    PTO_LOG(kInfo, "the child");
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_THAT(ReadUntil("the child"), ElementsAre(HasSubstr("the child")));
}

class LogWriterDeathTest : public LogWriterTest {
 protected:
  // The child has threads.
  LogWriterDeathTest() { ::testing::FLAGS_gtest_death_test_style = "threadsafe"; }
};

TEST_F(LogWriterDeathTest, TheLastLinesBeforeAnAbortAreWritten) {
  const auto log_and_die = [] {
    const LogWriter writer;
    for (int i = 0; i < 500; ++i) PTO_LOG(kInfo, "line", {{"i", i}});
    PTO_CHECK(false, "the last word");
  };
  EXPECT_EXIT(log_and_die(), ::testing::KilledBySignal(SIGABRT),
              AllOf(HasSubstr(" i=0\n"), HasSubstr(" i=499\n"), HasSubstr("the last word")));
}

TEST_F(LogWriterDeathTest, AFaultEndsTheProcessThoughNobodyReads) {
  const auto log_and_die = [this] {
    const LogWriter writer(IntoPipe());
    FillPipe();
    raise(SIGTRAP);  // sanitizers leave it alone
  };
  EXPECT_EXIT(log_and_die(), ::testing::KilledBySignal(SIGTRAP), "");
}

}  // namespace
}  // namespace pto
