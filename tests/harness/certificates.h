#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"

namespace pto::testing {

// A certificate and its private key, made for a test.
class TestCertificate {
 public:
  struct Options {
    std::string name = "test";                // common name
    std::string host = {};                    // DNS name of a server; empty: none
    bool authority = false;                   // may sign others
    absl::Duration begins = -absl::Hours(1);  // from now
    absl::Duration ends = absl::Hours(1);
  };

  // An authority that signs itself.
  static TestCertificate Authority(const std::string& name);
  // One that `authority` signs.
  static TestCertificate SignedBy(const TestCertificate& authority, const Options& options);

  // In PEM form.
  const std::string& certificate() const { return certificate_; }
  const std::string& key() const { return key_; }
  // Write them to files of the test's directory, and return the paths.
  std::string CertificateFile() const;
  std::string KeyFile() const;

  // A list of the authority that revokes `revoked`, as a file in the directory that is returned;
  // the file has the name that OpenSSL looks for.
  static std::string RevocationDirectory(const TestCertificate& authority,
                                         const TestCertificate& revoked);
  // Writes the authority's list into the directory, in place of the former one.
  static void WriteRevocationList(const std::string& directory, const TestCertificate& authority,
                                  const std::vector<const TestCertificate*>& revoked,
                                  absl::Duration valid_for = absl::Hours(1));

 private:
  struct Parts;
  std::shared_ptr<const Parts> parts_;
  std::string certificate_;
  std::string key_;
};

}  // namespace pto::testing
