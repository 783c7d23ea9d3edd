#include "tests/integration/identities.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "gtest/gtest.h"
#include "tests/harness/as_user.h"
#include "tests/harness/directory.h"
#include "tests/harness/identified_channel.h"
#include "tests/harness/process.h"
#include "tests/harness/runfile.h"

namespace pto::testing {

Identities::Identities(Kind kind, std::string directory, const std::vector<uid_t>& clients)
    : kind_(kind), directory_(std::move(directory)) {
  if (kind_ == Kind::kUsers) return;
  flags_.push_back("--listen=127.0.0.1:0");
  if (kind_ == Kind::kCertificates) {
    MakeCertificates(clients);
    return;
  }
  flags_.push_back(absl::StrCat("--access-tokens=", directory_, "/tokens"));
  for (const uid_t client : clients) MakeToken(client);
}

void Identities::MakeToken(uid_t client) {
  // With the tool that is delivered.
  const ProgramResult made =
      RunProgram({"/usr/bin/python3", Runfile("deploy/make_token.py"), absl::StrCat("t", client),
                  absl::StrCat("--file=", directory_, "/tokens")});
  EXPECT_EQ(made.exit_code, 0) << made.err;
  tokens_[client] = std::string(absl::StripSuffix(made.out, "\n"));
}

void Identities::MakeCertificates(const std::vector<uid_t>& clients) {
  authority_ = std::make_shared<const TestCertificate>(TestCertificate::Authority("authority"));
  const TestCertificate node =
      TestCertificate::SignedBy(*authority_, {.name = "node", .host = "localhost"});
  flags_.push_back("--tls-cert=" + node.CertificateFile());
  flags_.push_back("--tls-key=" + node.KeyFile());
  flags_.push_back("--tls-client-ca=" + authority_->CertificateFile());
  for (const uid_t client : clients) {
    certificates_.emplace(
        client, TestCertificate::SignedBy(*authority_, {.name = absl::StrCat("c", client)}));
  }
}

std::string Identities::NameOf(uid_t client) const {
  switch (kind_) {
    case Kind::kUsers:
      return absl::StrCat("uid-", client);
    case Kind::kTokens:
      return absl::StrCat("token-t", client);
    case Kind::kCertificates:
      break;
  }
  return absl::StrCat("cert-c", client);
}

std::shared_ptr<grpc::Channel> Identities::Connect(uid_t client,
                                                   const DaemonProcess& daemon) const {
  if (kind_ == Kind::kUsers) return ChannelAs(client, daemon.socket_path());
  std::string address;
  EXPECT_TRUE(Eventually([&] {
    address = TcpAddressIn(daemon.Log());
    return !address.empty();
  })) << daemon.Log();
  if (kind_ == Kind::kTokens) return ChannelWithToken(address, tokens_.at(client));
  return ChannelWithCertificate(address, *authority_, certificates_.at(client));
}

std::ostream& operator<<(std::ostream& out, Identities::Kind kind) {
  switch (kind) {
    case Identities::Kind::kUsers:
      return out << "Users";
    case Identities::Kind::kTokens:
      return out << "Tokens";
    case Identities::Kind::kCertificates:
      break;
  }
  return out << "Certificates";
}

}  // namespace pto::testing
