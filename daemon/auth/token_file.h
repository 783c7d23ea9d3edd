#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "daemon/auth/policy.pb.h"

namespace pto::daemon::auth {

// The bearer tokens that the daemon knows, from a file that has no secrets: of each token a salted
// hash. One line for each; `#` begins a comment:
//
//   NAME SALT HASH EXPIRES ROLES
//   ci 5b0c… 9f3a… 2027-01-31T00:00:00Z user,reader
//
// SALT and HASH are hexadecimal; HASH is the HMAC-SHA256 of the secret, with the salt as its key.
// EXPIRES is a time in UTC or `never`. What a client sends is NAME.SECRET. Never changes, so
// thread-safe.
class TokenFile {
 public:
  struct Token {
    std::string name;
    std::vector<policy::v1::Grant::Role> roles;
  };

  TokenFile() = default;  // knows none

  // Error: CONFIG_INVALID, with the file and the line.
  static absl::StatusOr<std::shared_ptr<const TokenFile>> Parse(absl::string_view file,
                                                                absl::string_view text);
  static absl::StatusOr<std::shared_ptr<const TokenFile>> Load(const std::string& file);

  // UNAUTHENTICATED unless the token is known and has not expired. Takes as long for any secret.
  absl::StatusOr<Token> Check(absl::string_view token, absl::Time now) const;

 private:
  struct Entry {
    Token token;
    std::string salt;
    std::string hash;
    absl::Time expires;
  };

  absl::flat_hash_map<std::string, Entry> tokens_;
};

}  // namespace pto::daemon::auth
