#include "daemon/wire/host_status.h"

#include <sys/types.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "daemon/wire/request.h"
#include "proto/status/utf8.h"

namespace pto::daemon {
namespace {

// Of a text that a host can have a part in.
constexpr size_t kMaxText = 4096;

// Resident pages of the process that are not those of shared files; 0 if it has gone.
uint64_t PrivateBytes(pid_t pid) {
  if (pid == 0) return 0;
  std::FILE* const file = std::fopen(absl::StrCat("/proc/", pid, "/statm").c_str(), "re");
  if (file == nullptr) return 0;
  unsigned long long size = 0;
  unsigned long long resident = 0;
  unsigned long long shared = 0;
  const int read = std::fscanf(file, "%llu %llu %llu", &size, &resident, &shared);
  std::fclose(file);
  if (read != 3 || resident < shared) return 0;
  return (resident - shared) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

v1::Host::State StateOf(host::HostStatus::State state) {
  switch (state) {
    case host::HostStatus::State::kReady:
      return v1::Host::READY;
    case host::HostStatus::State::kPaused:
      return v1::Host::PAUSED;
    case host::HostStatus::State::kStarting:
      return v1::Host::STARTING;
    case host::HostStatus::State::kEnded:
      break;
  }
  return v1::Host::STATE_UNSPECIFIED;
}

}  // namespace

void ToProto(const std::string& session, size_t kernels, const host::HostStatus& status,
             v1::Host* proto) {
  proto->set_session(session);
  proto->set_state(StateOf(status.state));
  proto->set_pid(status.pid);
  proto->set_kernel_count(static_cast<uint32_t>(kernels));
  proto->set_running_blocks(static_cast<uint32_t>(status.posts));
  proto->set_mapped_bytes(status.region_bytes);
  proto->set_private_bytes(PrivateBytes(status.pid));
  proto->set_restarts(status.deaths);
  proto->set_last_death(CutUtf8(status.last_death, kMaxText));
  if (status.deaths > 0) SetDuration(status.last_restart, proto->mutable_last_restart_time());
  for (uint32_t i = 0; i < status.sandbox.count; ++i) {
    const host::SandboxReport::Item& item = status.sandbox.items[i];
    v1::Host::Restriction* const out = proto->add_sandbox();
    out->set_name(item.name);
    out->set_in_force(item.provided != 0);
    out->set_detail(CutUtf8(item.detail, kMaxText));
  }
}

}  // namespace pto::daemon
