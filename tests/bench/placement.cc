#include "tests/bench/placement.h"

#include <sched.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "runtime/base/status_macros.h"

namespace pto::bench {
namespace {

// The CPUs that this process may use, before any placement.
const cpu_set_t& AllCpus() {
  static const cpu_set_t all = [] {
    cpu_set_t set;
    CPU_ZERO(&set);
    sched_getaffinity(0, sizeof(set), &set);
    return set;
  }();
  return all;
}

// The n-th of AllCpus, or the last.
cpu_set_t OneCpu(int n) {
  cpu_set_t one;
  CPU_ZERO(&one);
  for (int cpu = 0, last = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &AllCpus())) continue;
    CPU_CLR(last, &one);
    CPU_SET(cpu, &one);
    last = cpu;
    if (n-- == 0) break;
  }
  return one;
}

absl::Status PlaceProcess(pid_t pid, const cpu_set_t& cpus) {
  std::error_code error;
  std::filesystem::directory_iterator threads(absl::StrCat("/proc/", pid, "/task"), error);
  if (error) return absl::InternalError(absl::StrCat("process ", pid, ": ", error.message()));
  for (const auto& thread : threads) {
    const pid_t id = std::atoi(thread.path().filename().c_str());
    // A thread may have ended meanwhile.
    if (sched_setaffinity(id, sizeof(cpus), &cpus) != 0 && errno != ESRCH) {
      return absl::InternalError(absl::StrCat("sched_setaffinity: ", std::strerror(errno)));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::optional<Placement> ParsePlacement(absl::string_view name) {
  if (name == "free") return Placement::kFree;
  if (name == "apart") return Placement::kApart;
  if (name == "together") return Placement::kTogether;
  return absl::nullopt;
}

absl::Status Place(Placement placement, const std::vector<pid_t>& servers) {
  const bool free = placement == Placement::kFree;
  const cpu_set_t client_cpus = free ? AllCpus() : OneCpu(0);
  const cpu_set_t server_cpus = free ? AllCpus() : OneCpu(placement == Placement::kApart ? 1 : 0);
  PTO_RETURN_IF_ERROR(PlaceProcess(getpid(), client_cpus));
  for (const pid_t server : servers) PTO_RETURN_IF_ERROR(PlaceProcess(server, server_cpus));
  return absl::OkStatus();
}

}  // namespace pto::bench
