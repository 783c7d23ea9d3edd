#include "daemon/auth/token_file.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <array>
#include <cerrno>
#include <fstream>
#include <sstream>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/types/optional.h"
#include "daemon/auth/policy.h"
#include "daemon/names/names.h"
#include "runtime/base/error.h"
#include "runtime/base/status_macros.h"

namespace pto::daemon::auth {
namespace {

constexpr size_t kHashBytes = 32;
constexpr size_t kLeastSaltBytes = 8;
// With `token-` in front it has to be an id.
constexpr size_t kMostNameBytes = 57;
constexpr size_t kMostTokenBytes = 512;

using Hash = std::array<unsigned char, kHashBytes>;

Hash SaltedHash(absl::string_view salt, absl::string_view secret) {
  Hash hash = {};
  unsigned int size = 0;
  HMAC(EVP_sha256(), salt.data(), static_cast<int>(salt.size()),
       reinterpret_cast<const unsigned char*>(secret.data()), secret.size(), hash.data(), &size);
  return hash;
}

absl::optional<std::string> FromHex(absl::string_view text) {
  if (text.size() % 2 != 0) return absl::nullopt;
  for (const char c : text) {
    if (!absl::ascii_isxdigit(static_cast<unsigned char>(c))) return absl::nullopt;
  }
  return absl::HexStringToBytes(text);
}

// The same for a name that nobody has and for a wrong secret.
absl::Status Unknown() {
  return Error(reason::kUnauthenticated, "the token is not known to this daemon")
      .Hint("it may have been revoked; ask the operator of the node for another one");
}

}  // namespace

absl::StatusOr<std::shared_ptr<const TokenFile>> TokenFile::Parse(absl::string_view file,
                                                                  absl::string_view text) {
  auto tokens = std::make_shared<TokenFile>();
  int number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    // Nothing of the line: a secret may have been put there by mistake.
    const auto wrong = [&](absl::string_view what) -> absl::Status {
      return Error(reason::kConfigInvalid, absl::StrCat(file, ":", number, ": ", what))
          .With("file", file)
          .With("line", number);
    };
    line = line.substr(0, line.find('#'));
    const std::vector<std::string> fields =
        absl::StrSplit(line, absl::ByAnyChar(" \t\r"), absl::SkipEmpty());
    if (fields.empty()) continue;
    if (fields.size() != 5) return wrong("expected NAME SALT HASH EXPIRES ROLES");
    Entry entry;
    entry.token.name = fields[0];
    if (entry.token.name.size() > kMostNameBytes ||
        !names::CheckId(absl::StrCat("token-", entry.token.name), "name").ok()) {
      return wrong(absl::StrCat("a name is 1 to ", kMostNameBytes, " of a-z 0-9 -"));
    }
    const absl::optional<std::string> salt = FromHex(fields[1]);
    if (!salt.has_value() || salt->size() < kLeastSaltBytes) {
      return wrong(
          absl::StrCat("the salt is no hexadecimal text of ", kLeastSaltBytes, " bytes or more"));
    }
    entry.salt = *salt;
    const absl::optional<std::string> hash = FromHex(fields[2]);
    if (!hash.has_value() || hash->size() != kHashBytes) {
      return wrong(absl::StrCat("the hash is no hexadecimal text of ", kHashBytes, " bytes"));
    }
    entry.hash = *hash;
    entry.expires = absl::InfiniteFuture();
    std::string error;
    if (fields[3] != "never" &&
        !absl::ParseTime(absl::RFC3339_full, fields[3], &entry.expires, &error)) {
      return wrong("the end is no time such as 2027-01-31T00:00:00Z, nor `never`");
    }
    for (const absl::string_view role : absl::StrSplit(fields[4], ',')) {
      const absl::optional<policy::v1::Grant::Role> parsed = ParseRole(role);
      if (!parsed.has_value()) return wrong("a role is user, reader or operator");
      entry.token.roles.push_back(*parsed);
    }
    if (!tokens->tokens_.emplace(entry.token.name, entry).second) {
      return wrong(absl::StrCat("there are two tokens '", entry.token.name, "'"));
    }
  }
  return std::shared_ptr<const TokenFile>(std::move(tokens));
}

absl::StatusOr<std::shared_ptr<const TokenFile>> TokenFile::Load(const std::string& file) {
  if (file.empty()) return std::make_shared<const TokenFile>();
  errno = 0;
  std::ifstream in(file, std::ios::binary);
  std::ostringstream text;
  if (in.is_open() && in.peek() != std::ifstream::traits_type::eof()) text << in.rdbuf();
  if (!in.is_open() || in.bad()) {
    return Error(reason::kConfigInvalid,
                 absl::StrCat("cannot read ", file,
                              errno == 0 ? "" : ": " + std::generic_category().message(errno)))
        .With("file", file);
  }
  return Parse(file, text.str());
}

absl::StatusOr<TokenFile::Token> TokenFile::Check(absl::string_view token, absl::Time now) const {
  const size_t dot = token.find('.');
  if (dot == absl::string_view::npos || token.size() > kMostTokenBytes) return Unknown();
  const auto it = tokens_.find(std::string(token.substr(0, dot)));
  // A name that nobody has takes as long as one that somebody has.
  static const Entry* const nobody = [] {
    auto* const entry = new Entry;
    entry->salt = std::string(kLeastSaltBytes, 's');
    entry->hash = std::string(kHashBytes, '\0');
    return entry;
  }();
  const Entry& entry = it == tokens_.end() ? *nobody : it->second;
  const Hash hash = SaltedHash(entry.salt, token.substr(dot + 1));
  const bool same = CRYPTO_memcmp(hash.data(), entry.hash.data(), kHashBytes) == 0;
  if (it == tokens_.end() || !same) return Unknown();
  if (now >= entry.expires) {
    return Error(reason::kUnauthenticated,
                 absl::StrCat(
                     "token '", entry.token.name, "' expired at ",
                     absl::FormatTime(absl::RFC3339_sec, entry.expires, absl::UTCTimeZone())))
        .With("token", entry.token.name)
        .Hint("ask the operator of the node for another one");
  }
  return entry.token;
}

}  // namespace pto::daemon::auth
