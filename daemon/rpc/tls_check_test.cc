#include "daemon/rpc/tls_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "absl/time/clock.h"
#include "runtime/base/error.h"
#include "runtime/base/status_matchers.h"
#include "tests/harness/certificates.h"

namespace pto::daemon::rpc {
namespace {

using ::pto::testing::HasReason;
using ::pto::testing::IsOk;
using ::pto::testing::TestCertificate;
using ::testing::HasSubstr;

class TlsCheckTest : public ::testing::Test {
 protected:
  static std::string Write(const std::string& name, const std::string& text) {
    const std::string path = ::testing::TempDir() + "/" + name;
    std::ofstream(path) << text;
    return path;
  }

  static std::string Refusal(const std::string& cert_file, const std::string& key_file) {
    const absl::Status status = CheckCertificate(cert_file, key_file, absl::Now());
    EXPECT_THAT(status, HasReason(reason::kConfigInvalid));
    return std::string(status.message());
  }

  const TestCertificate authority_ = TestCertificate::Authority("authority");
  const TestCertificate good_ = TestCertificate::SignedBy(authority_, {.host = "localhost"});
};

TEST_F(TlsCheckTest, AcceptsACertificateAndItsKey) {
  EXPECT_THAT(CheckCertificate(good_.CertificateFile(), good_.KeyFile(), absl::Now()), IsOk());
  EXPECT_THAT(CheckAuthorities(authority_.CertificateFile()), IsOk());
}

TEST_F(TlsCheckTest, NamesTheSettingAndTheFile) {
  const std::string cert = good_.CertificateFile();
  EXPECT_THAT(Refusal("/missing", good_.KeyFile()),
              HasSubstr("tls.cert_file: cannot read /missing: No such file"));
  EXPECT_THAT(Refusal(cert, Write("empty", "")), HasSubstr("tls.key_file: cannot read"));
  EXPECT_THAT(Refusal(good_.KeyFile(), good_.KeyFile()),
              HasSubstr("does not begin with a certificate"));
  EXPECT_THAT(Refusal(cert, cert), HasSubstr("has no private key"));
  EXPECT_THAT(Refusal(cert, authority_.KeyFile()), HasSubstr("is not that of the certificate"));
  const absl::Status authorities = CheckAuthorities(Write("text", "hello"));
  EXPECT_THAT(authorities, HasReason(reason::kConfigInvalid));
  EXPECT_THAT(std::string(authorities.message()), HasSubstr("tls.client_ca_file"));
}

TEST_F(TlsCheckTest, RefusesACertificateOfAnotherTime) {
  const TestCertificate old =
      TestCertificate::SignedBy(authority_, {.begins = -absl::Hours(2), .ends = -absl::Hours(1)});
  EXPECT_THAT(Refusal(old.CertificateFile(), old.KeyFile()), HasSubstr("has expired"));
  const TestCertificate young =
      TestCertificate::SignedBy(authority_, {.begins = absl::Hours(1), .ends = absl::Hours(2)});
  EXPECT_THAT(Refusal(young.CertificateFile(), young.KeyFile()), HasSubstr("is not valid yet"));
}

}  // namespace
}  // namespace pto::daemon::rpc
