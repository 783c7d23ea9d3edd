#include "daemon/rpc/client_certificates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>

#include "absl/time/clock.h"
#include "runtime/base/error.h"
#include "runtime/base/status_matchers.h"
#include "tests/harness/certificates.h"
#include "tests/harness/directory.h"

namespace pto::daemon::rpc {
namespace {

using ::pto::testing::Directory;
using ::pto::testing::HasReason;
using ::pto::testing::IsOk;
using ::pto::testing::TestCertificate;
using ::pto::testing::WriteFile;
using ::testing::HasSubstr;

// The time of day goes on with the machine's; whether a verdict is old, the test decides.
class CertificateClock final : public Clock {
 public:
  int64_t NowNanos() const override { return manual_.NowNanos(); }
  absl::Time WallTime() const override { return absl::Now() + ahead_; }
  void Advance(absl::Duration by) {
    manual_.Advance(by);
    ahead_ += by;
  }

 private:
  ManualClock manual_;
  absl::Duration ahead_;
};

class ClientCertificatesTest : public ::testing::Test {
 protected:
  ClientCertificatesTest() {
    WriteFile(ca_file(), authority_.certificate());
    std::filesystem::create_directory(crl_dir());
  }
  std::string ca_file() const { return files_.path() + "/ca.pem"; }
  std::string crl_dir() const { return files_.path() + "/crl"; }
  std::shared_ptr<ClientCertificates> Load(bool lists = false) {
    auto loaded = ClientCertificates::Load(ca_file(), lists ? crl_dir() : "", clock_);
    EXPECT_THAT(loaded, IsOk());
    return *loaded;
  }
  static std::string FaultOf(ClientCertificates& certificates, const TestCertificate& of) {
    return certificates.FaultOf(of.certificate(), of.certificate());
  }

  const Directory files_;
  CertificateClock clock_;
  const TestCertificate authority_ = TestCertificate::Authority("clients");
  const TestCertificate alice_ = TestCertificate::SignedBy(authority_, {.name = "alice"});
  const TestCertificate mallory_ = TestCertificate::SignedBy(authority_, {.name = "mallory"});
};

TEST_F(ClientCertificatesTest, ACertificateOfTheAuthorityIsValid) {
  EXPECT_EQ(FaultOf(*Load(), alice_), "");
}

TEST_F(ClientCertificatesTest, OthersAreNot) {
  const auto certificates = Load();
  const TestCertificate other = TestCertificate::Authority("clients");
  EXPECT_NE(FaultOf(*certificates, TestCertificate::SignedBy(other, {.name = "alice"})), "");
  EXPECT_NE(certificates->FaultOf("", ""), "");
  EXPECT_NE(certificates->FaultOf("nonsense", "nonsense"), "");
}

TEST_F(ClientCertificatesTest, ItExpiresWhileTheDaemonRuns) {
  const auto certificates = Load();
  EXPECT_EQ(FaultOf(*certificates, alice_), "");
  clock_.Advance(absl::Hours(2));
  EXPECT_THAT(FaultOf(*certificates, alice_), HasSubstr("expired"));
}

// The finding: gRPC read the lists once, so a certificate that was revoked later was valid for
// ever.
TEST_F(ClientCertificatesTest, AListThatIsReplacedCountsASecondLater) {
  TestCertificate::WriteRevocationList(crl_dir(), authority_, {});
  const auto certificates = Load(true);
  EXPECT_EQ(FaultOf(*certificates, mallory_), "");
  TestCertificate::WriteRevocationList(crl_dir(), authority_, {&mallory_});
  clock_.Advance(absl::Seconds(1));
  EXPECT_THAT(FaultOf(*certificates, mallory_), HasSubstr("revoked"));
  EXPECT_EQ(FaultOf(*certificates, alice_), "");
  // And back again.
  TestCertificate::WriteRevocationList(crl_dir(), authority_, {});
  clock_.Advance(absl::Seconds(1));
  EXPECT_EQ(FaultOf(*certificates, mallory_), "");
}

// With gRPC, a list that had been renewed in time was still out of date.
TEST_F(ClientCertificatesTest, AListThatIsOutOfDateIsNoneUntilItIsRenewed) {
  TestCertificate::WriteRevocationList(crl_dir(), authority_, {}, absl::Minutes(1));
  const auto certificates = Load(true);
  EXPECT_EQ(FaultOf(*certificates, alice_), "");
  clock_.Advance(absl::Minutes(2));
  EXPECT_THAT(FaultOf(*certificates, alice_), HasSubstr("CRL has expired"));
  TestCertificate::WriteRevocationList(crl_dir(), authority_, {}, absl::Hours(1));
  clock_.Advance(absl::Seconds(1));
  EXPECT_EQ(FaultOf(*certificates, alice_), "");
}

TEST_F(ClientCertificatesTest, EachAuthorityNeedsAList) {
  EXPECT_THAT(FaultOf(*Load(true), alice_), HasSubstr("unable to get certificate CRL"));
}

TEST_F(ClientCertificatesTest, AnAuthorityCanBeReplaced) {
  const auto certificates = Load();
  const TestCertificate next = TestCertificate::Authority("next");
  EXPECT_EQ(FaultOf(*certificates, alice_), "");
  WriteFile(ca_file(), next.certificate());
  clock_.Advance(absl::Seconds(1));
  EXPECT_NE(FaultOf(*certificates, alice_), "");
  EXPECT_EQ(FaultOf(*certificates, TestCertificate::SignedBy(next, {.name = "alice"})), "");
}

TEST_F(ClientCertificatesTest, FilesThatCannotBeReadChangeNothing) {
  TestCertificate::WriteRevocationList(crl_dir(), authority_, {&mallory_});
  const auto certificates = Load(true);
  WriteFile(crl_dir() + "/00000000.r0", "half of a li");
  clock_.Advance(absl::Seconds(1));
  EXPECT_EQ(FaultOf(*certificates, alice_), "");
  EXPECT_THAT(FaultOf(*certificates, mallory_), HasSubstr("revoked"));
  EXPECT_THAT(ClientCertificates::Load(ca_file(), crl_dir()), HasReason(reason::kConfigInvalid));
  EXPECT_THAT(ClientCertificates::Load(ca_file(), "/missing"), HasReason(reason::kConfigInvalid));
  EXPECT_THAT(ClientCertificates::Load("/missing", ""), HasReason(reason::kConfigInvalid));
}

TEST_F(ClientCertificatesTest, ADirectoryThatCannotBeReachedChangesNothing) {
  TestCertificate::WriteRevocationList(crl_dir(), authority_, {&mallory_});
  const auto certificates = Load(true);
  EXPECT_EQ(FaultOf(*certificates, alice_), "");
  // Also root cannot follow it.
  std::filesystem::rename(crl_dir(), files_.path() + "/away");
  std::filesystem::create_directory_symlink(crl_dir(), crl_dir());
  clock_.Advance(absl::Seconds(1));
  EXPECT_EQ(FaultOf(*certificates, alice_), "");
  EXPECT_THAT(FaultOf(*certificates, mallory_), HasSubstr("revoked"));
  EXPECT_THAT(ClientCertificates::Load(ca_file(), crl_dir()), HasReason(reason::kConfigInvalid));
  std::filesystem::remove(crl_dir());
  std::filesystem::rename(files_.path() + "/away", crl_dir());
  clock_.Advance(absl::Seconds(1));
  EXPECT_EQ(FaultOf(*certificates, alice_), "");
}

// A resumed session has no chain.
TEST_F(ClientCertificatesTest, TheChainOfTheLastValidConnectionCountsWithoutOne) {
  const auto certificates = Load();
  const TestCertificate between =
      TestCertificate::SignedBy(authority_, {.name = "between", .authority = true});
  const TestCertificate bob = TestCertificate::SignedBy(between, {.name = "bob"});
  const std::string chain = bob.certificate() + between.certificate();
  EXPECT_NE(certificates->FaultOf(bob.certificate(), ""), "") << "nobody knows it yet";
  EXPECT_EQ(certificates->FaultOf(bob.certificate(), chain), "") << "this is another verdict";
  EXPECT_EQ(certificates->FaultOf(bob.certificate(), ""), "");
  EXPECT_NE(certificates->FaultOf(bob.certificate(), bob.certificate()), "");
  EXPECT_EQ(certificates->FaultOf(bob.certificate(), chain), "");
  clock_.Advance(absl::Seconds(2));
  EXPECT_EQ(certificates->FaultOf(bob.certificate(), ""), "");
  clock_.Advance(absl::Hours(2));
  EXPECT_THAT(certificates->FaultOf(bob.certificate(), ""), HasSubstr("expired"));
}

TEST_F(ClientCertificatesTest, ManyCertificatesTakeNoMemory) {
  const auto certificates = Load();
  for (int i = 0; i < 5000; ++i) {
    EXPECT_NE(certificates->FaultOf("nonsense " + std::to_string(i), ""), "");
  }
  EXPECT_EQ(FaultOf(*certificates, alice_), "");
}

}  // namespace
}  // namespace pto::daemon::rpc
