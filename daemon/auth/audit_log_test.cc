#include "daemon/auth/audit_log.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/error.h"
#include "runtime/base/status_matchers.h"

namespace pto::daemon::auth {
namespace {

using ::pto::testing::HasReason;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

AuditEntry Entry(const std::string& name) {
  AuditEntry entry;
  entry.time = absl::FromUnixMicros(1'800'000'000'123'456);
  entry.principal = "uid-1000";
  entry.pid = 42;
  entry.method = "pto.v1.RunService/CancelRun";
  entry.names = {name};
  entry.code = "OK";
  return entry;
}

AuditLog::Options Path(const std::string& path) {
  AuditLog::Options options;
  options.path = path;
  return options;
}

class AuditLogTest : public ::testing::Test {
 protected:
  AuditLogTest() : path_(absl::StrCat(::testing::TempDir(), "/audit-", getpid())) {}
  ~AuditLogTest() override {
    std::filesystem::remove(path_);
    std::filesystem::remove(path_ + ".1");
  }

  static std::vector<std::string> Lines(const std::string& path) {
    std::ifstream in(path);
    std::vector<std::string> lines;
    for (std::string line; std::getline(in, line);) lines.push_back(line);
    return lines;
  }

  const std::string path_;
};

TEST_F(AuditLogTest, ALineIsJson) {
  AuditEntry entry = Entry("sessions/s/runs/r");
  entry.names.push_back("a \"quoted\"\n\\name");
  entry.reason = "RUN_UNKNOWN";
  entry.code = "NOT_FOUND";
  entry.launches = 7;
  entry.refused = 2;
  EXPECT_EQ(FormatAudit(entry),
            R"({"time":"2027-01-15T08:00:00.123456Z","principal":"uid-1000","pid":42,)"
            R"("method":"pto.v1.RunService/CancelRun","session":"sessions/s",)"
            R"("names":["sessions/s/runs/r","a \"quoted\"\u000a\\name"],)"
            R"("code":"NOT_FOUND","reason":"RUN_UNKNOWN","launches":7,"refused":2})");
}

TEST_F(AuditLogTest, LongTextsAreCutBetweenCharacters) {
  std::string text;
  for (int i = 0; i < 200; ++i) text += "ü";
  const std::string line = FormatAudit(Entry(text + "x"));
  EXPECT_THAT(line, HasSubstr("üü\"]"));
  EXPECT_LT(line.size(), 512u);
}

TEST_F(AuditLogTest, AppendsInOrder) {
  std::ofstream(path_) << "before\n";
  {
    const auto log = AuditLog::Open(Path(path_)).value();
    log->Add(Entry("sessions/a"));
    log->Add(Entry("sessions/b"));
    log->Flush();
    EXPECT_THAT(Lines(path_), SizeIs(3));
    log->Add(Entry("sessions/c"));
  }
  EXPECT_THAT(Lines(path_), ElementsAre("before", HasSubstr("sessions/a"), HasSubstr("sessions/b"),
                                        HasSubstr("sessions/c")));
}

TEST_F(AuditLogTest, IsOpenedAgainAfterItWasMoved) {
  const auto log = AuditLog::Open(Path(path_)).value();
  log->Add(Entry("sessions/a"));
  log->Flush();
  std::filesystem::rename(path_, path_ + ".1");
  log->Add(Entry("sessions/b"));
  log->Flush();
  log->Reopen();
  log->Flush();
  log->Add(Entry("sessions/c"));
  log->Flush();
  EXPECT_THAT(Lines(path_ + ".1"), ElementsAre(HasSubstr("sessions/a"), HasSubstr("sessions/b")));
  EXPECT_THAT(Lines(path_), ElementsAre(HasSubstr("sessions/c")));
}

// Calls are never held up: what does not fit is dropped, and a line says how much that was.
TEST_F(AuditLogTest, WhatDoesNotFitIsCounted) {
  AuditLog::Options options;
  options.path = path_;
  options.max_queue = 8;
  constexpr uint64_t kAll = 20'000;
  {
    const auto log = AuditLog::Open(options).value();
    for (uint64_t i = 0; i < kAll; ++i) log->Add(Entry("sessions/a"));
    log->Flush();
    EXPECT_GT(log->dropped(), 0u);
  }
  uint64_t written = 0;
  uint64_t dropped = 0;
  for (const std::string& line : Lines(path_)) {
    const std::string prefix = "{\"dropped\":";
    if (line.compare(0, prefix.size(), prefix) == 0) {
      dropped += std::stoull(line.substr(prefix.size()));
    } else {
      ++written;
    }
  }
  EXPECT_EQ(written + dropped, kAll);
}

TEST_F(AuditLogTest, ManyThreadsAdd) {
  {
    const auto log = AuditLog::Open(Path(path_)).value();
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&log] {
        for (int i = 0; i < 500; ++i) log->Add(Entry("sessions/a"));
      });
    }
    log->Reopen();
    for (std::thread& thread : threads) thread.join();
  }
  EXPECT_THAT(Lines(path_), SizeIs(2000));
}

TEST_F(AuditLogTest, SaysWhyItCannotBeOpened) {
  EXPECT_THAT(AuditLog::Open(Path("/nonexistent/audit")), HasReason(reason::kConfigInvalid));
}

TEST_F(AuditLogTest, ADeviceThatIsFullIsNoReasonToStop) {
  const auto log = AuditLog::Open(Path("/dev/full")).value();
  log->Add(Entry("sessions/a"));
  log->Flush();
  log->Add(Entry("sessions/b"));
  log->Flush();
  EXPECT_EQ(log->dropped(), 2u);
}

}  // namespace
}  // namespace pto::daemon::auth
