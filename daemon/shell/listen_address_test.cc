#include "daemon/shell/listen_address.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/base/status_matchers.h"

namespace pto::daemon {
namespace {

using ::testing::HasSubstr;

ListenAddress Parse(const std::string& text) {
  absl::StatusOr<ListenAddress> address = ListenAddress::Parse(text);
  EXPECT_THAT(address, ::pto::testing::IsOk());
  return *std::move(address);
}

std::string Refusal(const std::string& text) {
  const absl::Status status = ListenAddress::Parse(text).status();
  EXPECT_THAT(status, ::pto::testing::HasReason(reason::kConfigInvalid)) << text;
  return std::string(status.message());
}

TEST(ListenAddressTest, ParsesUnixPaths) {
  EXPECT_EQ(Parse("unix:/run/ptod.sock").path(), "/run/ptod.sock");
  EXPECT_EQ(Parse("unix:///run/ptod.sock").path(), "/run/ptod.sock");
  EXPECT_EQ(Parse("unix:///run/ptod.sock").ToString(), "unix:/run/ptod.sock");
  EXPECT_TRUE(Parse("unix:/run/ptod.sock").IsLocal());
}

TEST(ListenAddressTest, BoundsTheLengthOfAPath) {
  const std::string longest = absl::StrCat("unix:/", std::string(106, 'x'));
  EXPECT_EQ(Parse(longest).path().size(), 107u);
  EXPECT_THAT(Refusal(longest + "x"), HasSubstr("108 bytes"));
  EXPECT_THAT(Refusal(longest + "x"), HasSubstr("at most 107"));
}

TEST(ListenAddressTest, ParsesTcpAddresses) {
  const ListenAddress v4 = Parse("127.0.0.1:0");
  EXPECT_FALSE(v4.is_unix());
  EXPECT_EQ(v4.host(), "127.0.0.1");
  EXPECT_EQ(v4.port(), 0);
  const ListenAddress v6 = Parse("[::1]:65535");
  EXPECT_EQ(v6.host(), "::1");
  EXPECT_EQ(v6.port(), 65535);
  EXPECT_EQ(v6.ToString(), "[::1]:65535");
  EXPECT_EQ(Parse("localhost:7000").ToString(), "localhost:7000");
}

TEST(ListenAddressTest, KnowsWhatOtherMachinesCanReach) {
  for (const char* local : {"127.0.0.1:1", "127.8.9.10:1", "[::1]:1", "localhost:1"}) {
    EXPECT_TRUE(Parse(local).IsLocal()) << local;
  }
  for (const char* remote : {"0.0.0.0:1", "10.0.0.1:1", "[::]:1", "[fe80::1]:1", "npu7:1",
                             "localhost.example.org:1", "128.0.0.1:1"}) {
    EXPECT_FALSE(Parse(remote).IsLocal()) << remote;
  }
}

TEST(ListenAddressTest, RefusesOtherTexts) {
  for (const char* text : {"",
                           "unix:",
                           "unix:relative",
                           "unix:/dir/",
                           "unix://host/path",
                           "localhost",
                           "localhost:",
                           ":80",
                           "host:65536",
                           "host:-1",
                           "host:+1",
                           "host:0x10",
                           "host:1 ",
                           "::1:80",
                           "[::1]",
                           "[::1:80",
                           "[nonsense]:80",
                           "http://host:80",
                           "a b:80",
                           "/run/ptod.sock"}) {
    Refusal(text);
  }
  EXPECT_THAT(Refusal("::1:80"), HasSubstr("brackets"));
  EXPECT_THAT(Refusal("unix:relative"), HasSubstr("absolute"));
}

}  // namespace
}  // namespace pto::daemon
