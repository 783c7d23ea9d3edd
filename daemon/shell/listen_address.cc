#include "daemon/shell/listen_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/un.h>

#include <limits>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "runtime/base/error.h"

namespace pto::daemon {
namespace {

// One byte is for the zero at the end.
constexpr size_t kMaxPathBytes = sizeof(sockaddr_un::sun_path) - 1;

absl::Status Wrong(absl::string_view text, absl::string_view why) {
  return Error(reason::kConfigInvalid, absl::StrCat("cannot listen on '", text, "': ", why))
      .With("address", text);
}

bool ParsePort(absl::string_view text, uint16_t* port) {
  uint32_t number = 0;
  if (text.empty() || text.find_first_not_of("0123456789") != absl::string_view::npos ||
      !absl::SimpleAtoi(text, &number) || number > std::numeric_limits<uint16_t>::max()) {
    return false;
  }
  *port = static_cast<uint16_t>(number);
  return true;
}

bool IsIpv6(const std::string& host) {
  in6_addr address;
  return inet_pton(AF_INET6, host.c_str(), &address) == 1;
}

}  // namespace

absl::StatusOr<ListenAddress> ListenAddress::Parse(absl::string_view text) {
  ListenAddress address;
  absl::string_view rest = text;
  if (absl::ConsumePrefix(&rest, "unix:")) {
    // The form of a URL with an empty host.
    if (absl::StartsWith(rest, "///")) rest.remove_prefix(2);
    if (!absl::StartsWith(rest, "/") || absl::StartsWith(rest, "//")) {
      return Wrong(text, "expected an absolute path, as in unix:/run/ptod/ptod.sock");
    }
    if (rest.size() > kMaxPathBytes) {
      return Wrong(text, absl::StrCat("the path has ", rest.size(),
                                      " bytes, and a unix socket's can have at most ",
                                      kMaxPathBytes, "; choose a shorter one"));
    }
    if (rest.find('\0') != absl::string_view::npos || absl::EndsWith(rest, "/")) {
      return Wrong(text, "expected the path of a file");
    }
    address.path_ = std::string(rest);
    return address;
  }
  const size_t colon = text.rfind(':');
  if (colon == absl::string_view::npos || colon == 0 ||
      !ParsePort(text.substr(colon + 1), &address.port_)) {
    return Wrong(text, "expected unix:/path, host:port or [v6]:port, with a port from 0 to 65535");
  }
  absl::string_view host = text.substr(0, colon);
  if (absl::ConsumePrefix(&host, "[")) {
    if (!absl::ConsumeSuffix(&host, "]") || !IsIpv6(std::string(host))) {
      return Wrong(text, "expected an IPv6 address between the brackets");
    }
  } else if (host.find_first_of(":/[] ") != absl::string_view::npos) {
    return Wrong(text, "expected a name or an address before the port; IPv6 needs brackets");
  }
  address.host_ = std::string(host);
  return address;
}

bool ListenAddress::IsLocal() const {
  if (is_unix() || host_ == "localhost") return true;
  in_addr v4;
  if (inet_pton(AF_INET, host_.c_str(), &v4) == 1) return ntohl(v4.s_addr) >> 24 == IN_LOOPBACKNET;
  in6_addr v6;
  return inet_pton(AF_INET6, host_.c_str(), &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

std::string ListenAddress::ToString() const {
  if (is_unix()) return absl::StrCat("unix:", path_);
  return absl::StrCat(IsIpv6(host_) ? absl::StrCat("[", host_, "]") : host_, ":", port_);
}

}  // namespace pto::daemon
