// What HCCL finds of the host's network.

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/base/file_descriptor.h"
#include "runtime/chip/ascend/doctor/machine_checks.h"

namespace pto::ascend {
namespace {

using State = Finding::State;

// The ports of the host that HCCL takes when nothing is set.
constexpr uint16_t kFirstPort = 60000;
constexpr uint16_t kLastPort = 60015;

bool IsFree(uint16_t port) {
  const FileDescriptor listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!listener.valid()) return true;
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  return bind(listener.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
}

std::string Variable(const char* name) {
  const char* const value = std::getenv(name);  // NOLINT: one thread
  return value == nullptr ? "" : value;
}

}  // namespace

void CheckNetwork(std::vector<Finding>* findings) {
  std::vector<std::pair<std::string, std::string>> interfaces;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) == 0) {
    for (const ifaddrs* each = list; each != nullptr; each = each->ifa_next) {
      if (each->ifa_addr == nullptr || each->ifa_addr->sa_family != AF_INET) continue;
      if ((each->ifa_flags & IFF_UP) == 0) continue;
      char text[INET_ADDRSTRLEN] = {};
      inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(each->ifa_addr)->sin_addr, text,
                sizeof text);
      interfaces.emplace_back(each->ifa_name, text);
    }
    freeifaddrs(list);
  }
  // The order in which HCCL chooses: names that are neither loopback nor of containers come first.
  const auto rank = [](const std::string& name) {
    return name == "lo" ? 2 : absl::StartsWith(name, "docker") ? 1 : 0;
  };
  std::sort(interfaces.begin(), interfaces.end(), [&](const auto& a, const auto& b) {
    return std::make_pair(rank(a.first), a.first) < std::make_pair(rank(b.first), b.first);
  });
  const std::string address = Variable("HCCL_IF_IP");
  const std::string name = Variable("HCCL_SOCKET_IFNAME");
  std::string chosen = "none";
  if (!address.empty()) {
    chosen = absl::StrCat(address, " (HCCL_IF_IP)");
  } else if (!name.empty()) {
    chosen = absl::StrCat(name, " (HCCL_SOCKET_IFNAME)");
  } else if (!interfaces.empty()) {
    chosen = absl::StrCat(interfaces[0].first, " ", interfaces[0].second);
  }
  const std::string all = absl::StrJoin(interfaces, ", ", [](std::string* out, const auto& each) {
    absl::StrAppend(out, each.first, " ", each.second);
  });
  findings->push_back(
      {"hccl network", interfaces.empty() ? State::kProblem : State::kOk,
       absl::StrCat("HCCL uses ", chosen, "; the machine has ", all.empty() ? "no interface" : all),
       interfaces.size() > 2 && address.empty() && name.empty()
           ? "set HCCL_IF_IP if this is not the network between the nodes"
           : ""});
  std::vector<std::string> taken;
  for (uint16_t port = kFirstPort; port <= kLastPort; ++port) {
    if (!IsFree(port)) taken.push_back(absl::StrCat(port));
  }
  findings->push_back(
      {"hccl ports", taken.empty() ? State::kOk : State::kNote,
       taken.empty() ? absl::StrCat(kFirstPort, " to ", kLastPort, " are free")
                     : absl::StrCat("in use: ", absl::StrJoin(taken, ", ")),
       taken.empty() ? "" : "end what uses them, or set HCCL_HOST_SOCKET_PORT_RANGE"});
}

}  // namespace pto::ascend
