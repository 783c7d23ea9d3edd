#include "daemon/kernels/sandbox_probe.h"

#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace pto::daemon {
namespace {

std::string Refusal(const char* call) {
  return absl::StrCat(call, ": ", std::generic_category().message(errno));
}

SandboxPart ProbeSystemCalls() {
  uint32_t action = SECCOMP_RET_ERRNO;
  if (syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0) {
    return {"system-calls", true, "seccomp: an allow list"};
  }
  return {"system-calls", false, Refusal("seccomp")};
}

SandboxPart ProbeFileSystem() {
  const long version = syscall(SYS_landlock_create_ruleset, nullptr, 0,  // NOLINT
                               LANDLOCK_CREATE_RULESET_VERSION);
  if (version > 0) {
    return {"file-system", true,
            absl::StrCat("Landlock ", version, ": reads the system's libraries, nothing else")};
  }
  return {"file-system", false, Refusal("landlock_create_ruleset")};
}

}  // namespace

std::vector<SandboxPart> ProbeSandbox() { return {ProbeSystemCalls(), ProbeFileSystem()}; }

}  // namespace pto::daemon
