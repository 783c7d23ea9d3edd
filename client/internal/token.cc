#include "client/internal/token.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "runtime/base/error.h"
#include "runtime/base/file_descriptor.h"
#include "runtime/base/status_macros.h"

namespace pto::internal {
namespace {

constexpr size_t kMostBytes = 4096;

// Not by the first characters: `127.0.0.1.example.com` is the name of another machine.
bool IsLoopback(absl::string_view address) {
  const std::string host(address.substr(0, address.rfind(':')));
  in_addr number = {};
  if (inet_pton(AF_INET, host.c_str(), &number) == 1) {
    return (ntohl(number.s_addr) >> IN_CLASSA_NSHIFT) == IN_LOOPBACKNET;
  }
  return host == "localhost" || host == "[::1]";
}

absl::Status Wrong(const std::string& file, absl::string_view what) {
  return Error(reason::kFieldInvalid, absl::StrCat("the token file ", file, " ", what))
      .At("token_file")
      .With("file", file);
}

absl::StatusOr<std::string> ReadToken(const std::string& file) {
  const FileDescriptor in(open(file.c_str(), O_RDONLY | O_CLOEXEC));
  if (!in.valid()) {
    return Wrong(file, absl::StrCat("cannot be read: ", std::generic_category().message(errno)));
  }
  struct stat info = {};
  if (fstat(in.get(), &info) != 0 || !S_ISREG(info.st_mode)) return Wrong(file, "is no file");
  if ((info.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    return Wrong(file, "can be read by others; run chmod 600 on it");
  }
  std::string text(kMostBytes, '\0');
  const ssize_t size = read(in.get(), text.data(), text.size());
  if (size < 0) return Wrong(file, "cannot be read");
  text.resize(static_cast<size_t>(size));
  absl::StripAsciiWhitespace(&text);
  if (text.empty()) return Wrong(file, "is empty");
  for (const char c : text) {
    // Neither can be in a header of HTTP/2.
    if (!absl::ascii_isgraph(static_cast<unsigned char>(c))) return Wrong(file, "has no token");
  }
  return text;
}

}  // namespace

absl::StatusOr<std::string> FindToken(absl::string_view address, const std::string& given,
                                      bool encrypted) {
  if (absl::StartsWith(address, "unix")) return "";
  std::string file = given;
  if (file.empty()) {
    const char* const from_env = std::getenv("PTOD_TOKEN_FILE");
    if (from_env != nullptr) file = from_env;
  }
  if (file.empty()) return "";
  if (!encrypted && !IsLoopback(address)) {
    return Error(reason::kFieldInvalid,
                 absl::StrCat("the connection to ", address,
                              " is not encrypted, so no token is sent over it"))
        .At("token_file")
        .With("address", address)
        .Hint("use TLS (--tls-ca), a loopback address, or the unix socket");
  }
  return ReadToken(file);
}

}  // namespace pto::internal
