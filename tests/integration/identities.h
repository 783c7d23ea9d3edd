#pragma once

#include <sys/types.h>

#include <map>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "grpcpp/channel.h"
#include "tests/harness/certificates.h"
#include "tests/harness/daemon_process.h"

namespace pto::testing {

// Several clients whom a daemon tells apart: by their users, by tokens, or by certificates.
class Identities {
 public:
  enum class Kind { kUsers, kTokens, kCertificates };

  // Clients are called by numbers, which for users are theirs. Files go to the directory.
  Identities(Kind kind, std::string directory, const std::vector<uid_t>& clients);

  // What the daemon needs to know them.
  std::vector<std::string> flags() const { return flags_; }
  // The principal.
  std::string NameOf(uid_t client) const;
  std::shared_ptr<grpc::Channel> Connect(uid_t client, const DaemonProcess& daemon) const;

 private:
  void MakeToken(uid_t client);
  void MakeCertificates(const std::vector<uid_t>& clients);

  const Kind kind_;
  const std::string directory_;
  std::vector<std::string> flags_;
  std::map<uid_t, std::string> tokens_;
  std::shared_ptr<const TestCertificate> authority_;
  std::map<uid_t, TestCertificate> certificates_;
};

std::ostream& operator<<(std::ostream& out, Identities::Kind kind);

}  // namespace pto::testing
