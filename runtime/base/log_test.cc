#include "runtime/base/log.h"

#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace pto {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;

std::string Line(LogFormat format, absl::string_view message,
                 std::initializer_list<LogField> fields = {}) {
  return FormatLogLine(format, "2026-01-02T03:04:05.000006Z", LogLevel::kInfo, "daemon/main.cc", 42,
                       message, absl::MakeConstSpan(fields.begin(), fields.size()));
}
std::string Text(absl::string_view message, std::initializer_list<LogField> fields = {}) {
  return Line(LogFormat::kText, message, fields);
}
std::string Json(absl::string_view message, std::initializer_list<LogField> fields = {}) {
  return Line(LogFormat::kJson, message, fields);
}

// Restores the default settings when a test ends.
class LogTest : public ::testing::Test {
 protected:
  ~LogTest() override { SetLog(LogLevel::kInfo, LogFormat::kText); }
};

TEST_F(LogTest, TextLine) {
  EXPECT_EQ(Text("ready", {{"chips", 4}, {"listen", "unix:/run/ptod.sock"}}),
            "2026-01-02T03:04:05.000006Z INFO main.cc:42 ready chips=4 listen=unix:/run/ptod.sock");
}

TEST_F(LogTest, TextValuesThatAreNotOneWordAreQuoted) {
  EXPECT_THAT(Text("m", {{"k", "two words"}}), EndsWith(" k=\"two words\""));
  EXPECT_THAT(Text("m", {{"k", ""}}), EndsWith(" k=\"\""));
  EXPECT_THAT(Text("m", {{"k", "a=b"}}), EndsWith(" k=\"a=b\""));
  EXPECT_THAT(Text("m", {{"k", "say \"hi\" \\o"}}), EndsWith(" k=\"say \\\"hi\\\" \\\\o\""));
  EXPECT_THAT(Text("m", {{"k", "a\nb"}}), EndsWith(" k=\"a\\nb\""));
}

TEST_F(LogTest, TextMessageStaysOnItsLine) {
  EXPECT_THAT(Text("first\nsecond \"quoted\"\x1b[0m"),
              EndsWith("main.cc:42 first\\nsecond \"quoted\"\\u001b[0m"));
}

TEST_F(LogTest, JsonLine) {
  EXPECT_EQ(Json("ready", {{"chips", 4}, {"listen", "unix:x"}}),
            R"({"time":"2026-01-02T03:04:05.000006Z","level":"INFO","source":"main.cc:42",)"
            R"("message":"ready","chips":"4","listen":"unix:x"})");
}

TEST_F(LogTest, JsonEscapes) {
  EXPECT_THAT(Json("a\"b\\c\nd\te\x01\x7f"),
              HasSubstr(R"("message":"a\"b\\c\nd\u0009e\u0001\u007f")"));
  EXPECT_THAT(Json("m", {{"k", "\"}\n"}}), EndsWith(R"(,"k":"\"}\n"})"));
}

TEST_F(LogTest, Utf8StaysAndOtherBytesAreReplaced) {
  for (const absl::string_view good : {"é", "…", "𝄞", "\xed\x9f\xbf", "\xf4\x8f\xbf\xbf"}) {
    EXPECT_THAT(Json("m", {{"k", good}}), HasSubstr(std::string(good)));
  }
  const std::string bad = "\xef\xbf\xbd";
  EXPECT_THAT(Json("m", {{"k", "a\xff"}}), EndsWith("\"a" + bad + "\"}"));
  EXPECT_THAT(Json("m", {{"k", "\xc3"}}), EndsWith("\"" + bad + "\"}"));        // cut off
  EXPECT_THAT(Json("m", {{"k", "\xc3\x22"}}), EndsWith(bad + "\\\"\"}"));       // eats no quote
  EXPECT_THAT(Json("m", {{"k", "\xc0\xaf"}}), EndsWith(bad + bad + "\"}"));     // overlong
  EXPECT_THAT(Json("m", {{"k", "\xe0\x80\xaf"}}), Not(HasSubstr("\xe0\x80")));  // overlong
  EXPECT_THAT(Json("m", {{"k", "\xed\xa0\x80"}}), Not(HasSubstr("\xed\xa0")));  // surrogate
  EXPECT_THAT(Text("m", {{"k", "a\xff"}}), EndsWith(" k=a" + bad));
}

TEST_F(LogTest, ParsesLevelsAndFormats) {
  LogLevel level = LogLevel::kInfo;
  EXPECT_TRUE(ParseLogLevel("debug", &level));
  EXPECT_EQ(level, LogLevel::kDebug);
  EXPECT_TRUE(ParseLogLevel("error", &level));
  EXPECT_EQ(level, LogLevel::kError);
  EXPECT_FALSE(ParseLogLevel("INFO", &level));
  EXPECT_EQ(level, LogLevel::kError);
  LogFormat format = LogFormat::kText;
  EXPECT_TRUE(ParseLogFormat("json", &format));
  EXPECT_EQ(format, LogFormat::kJson);
  EXPECT_FALSE(ParseLogFormat("", &format));
}

TEST_F(LogTest, WritesWhatIsEnabled) {
  SetLog(LogLevel::kWarning, LogFormat::kText);
  EXPECT_FALSE(LogEnabled(LogLevel::kInfo));
  EXPECT_TRUE(LogEnabled(LogLevel::kError));
  int evaluated = 0;
  ::testing::internal::CaptureStderr();
  PTO_LOG(kInfo, "quiet", {{"n", ++evaluated}});
  PTO_LOG(kWarning, "loud", {{"n", ++evaluated}, {"m", "x"}});
  PTO_LOG(kError, "alone");
  const std::vector<std::string> lines =
      absl::StrSplit(::testing::internal::GetCapturedStderr(), '\n');
  ASSERT_EQ(lines.size(), 3);
  EXPECT_THAT(lines[0],
              MatchesRegex("....-..-..T..:..:...[0-9]+Z WARNING log_test.cc:[0-9]+ loud n=1 m=x"));
  EXPECT_THAT(lines[1], MatchesRegex(".* ERROR log_test.cc:[0-9]+ alone"));
  EXPECT_EQ(lines[2], "");
  EXPECT_EQ(evaluated, 1);
}

TEST_F(LogTest, LinesOfThreadsDoNotMix) {
  constexpr int kThreads = 4;
  constexpr int kLines = 50;
  SetLog(LogLevel::kInfo, LogFormat::kJson);
  ::testing::internal::CaptureStderr();
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([t] {
      for (int i = 0; i < kLines; ++i) PTO_LOG(kInfo, "line", {{"thread", t}, {"i", i}});
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::vector<std::string> lines = absl::StrSplit(::testing::internal::GetCapturedStderr(), '\n');
  ASSERT_EQ(lines.size(), kThreads * kLines + 1);
  lines.pop_back();
  for (const std::string& line : lines) {
    EXPECT_THAT(line,
                MatchesRegex("\\{\"time\":\"[^\"]*\",.*,\"thread\":\".\",\"i\":\"[0-9]+\"\\}"));
  }
}

TEST(LogDeathTest, CheckEndsTheProcessAndSaysWhere) {
  const int two = 2;
  PTO_CHECK(two == 2, "arithmetic");
  EXPECT_DEATH(PTO_CHECK(two == 3, "arithmetic"),
               "ERROR log_test.cc:[0-9]+ check failed condition=\"two == 3\" message=arithmetic");
}

}  // namespace
}  // namespace pto
