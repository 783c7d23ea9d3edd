#include "client/internal/channel_security.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "runtime/base/error.h"
#include "runtime/base/status_matchers.h"

namespace pto::internal {
namespace {

using ::pto::testing::IsOk;
using ::testing::HasSubstr;

constexpr char kAddress[] = "localhost:7000";

std::string Path(const std::string& name) { return ::testing::TempDir() + "/" + name; }

std::string Write(const std::string& name, const std::string& text) {
  std::ofstream(Path(name)) << text;
  return Path(name);
}

std::string Pem(const std::string& name) {
  return Write(name, "-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n");
}

// The field and the message of the error.
std::string Refusal(const TlsOptions& tls) {
  const absl::Status status = MakeChannelSecurity(kAddress, tls).status();
  EXPECT_EQ(ReasonOf(status), reason::kFieldInvalid.name) << status;
  const auto detail = GetErrorDetail(status);
  return (detail.has_value() ? detail->field : "") + ": " + std::string(status.message());
}

TEST(ChannelSecurityTest, NeedsNoFilesWithoutTls) {
  EXPECT_THAT(MakeChannelSecurity(kAddress, {}).status(), IsOk());
  // The operating system says who is at the other end of a unix socket.
  EXPECT_THAT(MakeChannelSecurity("unix:/tmp/x", {.ca_file = "/missing"}).status(), IsOk());
}

TEST(ChannelSecurityTest, TakesTheServerNameOnlyWithTls) {
  const absl::StatusOr<ChannelSecurity> plain =
      MakeChannelSecurity(kAddress, {.server_name = "ptod"});
  ASSERT_THAT(plain.status(), IsOk());
  EXPECT_EQ(plain->server_name, "");
  const absl::StatusOr<ChannelSecurity> tls =
      MakeChannelSecurity(kAddress, {.ca_file = Pem("ca"), .server_name = "ptod"});
  ASSERT_THAT(tls.status(), IsOk());
  EXPECT_EQ(tls->server_name, "ptod");
}

TEST(ChannelSecurityTest, NamesTheOptionAndTheFile) {
  EXPECT_THAT(Refusal({.ca_file = Path("missing")}),
              HasSubstr("tls.ca_file: cannot read " + Path("missing") + ": No such file"));
  EXPECT_THAT(Refusal({.ca_file = Write("text", "hello")}), HasSubstr("is not a PEM file"));
  EXPECT_THAT(Refusal({.ca_file = Write("empty", "")}), HasSubstr("it is empty"));
  EXPECT_THAT(Refusal({.ca_file = Pem("ca"), .cert_file = Pem("cert")}),
              HasSubstr("tls.key_file: the certificate"));
  EXPECT_THAT(Refusal({.ca_file = Pem("ca"), .key_file = Pem("key")}),
              HasSubstr("tls.cert_file: the key"));
  EXPECT_THAT(Refusal({.cert_file = Pem("cert"), .key_file = Pem("key")}),
              HasSubstr("tls.ca_file: a client certificate also needs"));
}

TEST(ChannelSecurityTest, TakesFromTheEnvironmentWhatIsNotGiven) {
  setenv("PTOD_TLS_CA", "/env/ca", 1);
  setenv("PTOD_TLS_SERVER_NAME", "env", 1);
  const TlsOptions resolved = ResolveTls({.server_name = "given"});
  unsetenv("PTOD_TLS_CA");
  unsetenv("PTOD_TLS_SERVER_NAME");
  EXPECT_EQ(resolved.ca_file, "/env/ca");
  EXPECT_EQ(resolved.server_name, "given");
  EXPECT_EQ(resolved.cert_file, "");
}

}  // namespace
}  // namespace pto::internal
