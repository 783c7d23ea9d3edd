#pragma once

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace pto::daemon::auth::testing {

// A line of a file of tokens, for the token `name`.`secret`.
inline std::string TokenLine(absl::string_view name, absl::string_view secret,
                             absl::string_view expires = "never",
                             absl::string_view roles = "user") {
  const std::string salt = "0123456789abcdef";
  unsigned char hash[32] = {};
  unsigned int size = 0;
  HMAC(EVP_sha256(), salt.data(), static_cast<int>(salt.size()),
       reinterpret_cast<const unsigned char*>(secret.data()), secret.size(), hash, &size);
  return absl::StrCat(
      name, " ", absl::BytesToHexString(salt), " ",
      absl::BytesToHexString(absl::string_view(reinterpret_cast<const char*>(hash), size)), " ",
      expires, " ", roles, "\n");
}

}  // namespace pto::daemon::auth::testing
