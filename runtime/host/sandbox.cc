#include "runtime/host/sandbox.h"

#include <sys/prctl.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "runtime/base/error.h"

namespace pto::host {
namespace {

absl::Status Unavailable(absl::string_view call) {
  return Error(reason::kNotAvailable,
               absl::StrCat(call, ": ", std::generic_category().message(errno)));
}

absl::Status SetLimit(__rlimit_resource resource, uint64_t value, absl::string_view name) {
  rlimit limit = {};
  if (getrlimit(resource, &limit) != 0) return Unavailable(name);
  // Never more than the daemon may give.
  limit.rlim_cur = limit.rlim_max = std::min<rlim_t>(value, limit.rlim_max);
  return setrlimit(resource, &limit) == 0 ? absl::OkStatus() : Unavailable(name);
}

void Add(SandboxReport* report, absl::string_view name, const absl::Status& done,
         absl::string_view detail) {
  SandboxReport::Item& item = report->items[report->count++];
  SetText(absl::MakeSpan(item.name), name);
  item.provided = done.ok() ? 1 : 0;
  SetText(absl::MakeSpan(item.detail), done.ok() ? detail : done.message());
}

absl::Status SwitchedOff() { return Error(reason::kNotAvailable, "switched off"); }

}  // namespace

absl::Status LimitResources(const SandboxLimits& limits) {
  const struct {
    __rlimit_resource resource;
    uint64_t value;
    absl::string_view name;
  } all[] = {
      {RLIMIT_DATA, limits.data_bytes, "RLIMIT_DATA"},
      {RLIMIT_AS, limits.address_bytes, "RLIMIT_AS"},
      {RLIMIT_FSIZE, limits.file_bytes, "RLIMIT_FSIZE"},
      {RLIMIT_NOFILE, limits.files, "RLIMIT_NOFILE"},
      {RLIMIT_NPROC, limits.processes, "RLIMIT_NPROC"},
  };
  for (const auto& limit : all) {
    if (limit.value == 0) continue;
    if (absl::Status set = SetLimit(limit.resource, limit.value, limit.name); !set.ok()) return set;
  }
  return SetLimit(RLIMIT_CORE, 0, "RLIMIT_CORE");
}

SandboxReport ApplySandbox(const SandboxLimits& limits) {
  SandboxReport report;
  // First: the others need it if the daemon has no privileges.
  const absl::Status no_gain = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
                                   ? absl::OkStatus()
                                   : Unavailable("PR_SET_NO_NEW_PRIVS");
  Add(&report, "no_new_privileges", no_gain, "programs with more rights do not get them");
  Add(&report, "resources", LimitResources(limits),
      absl::StrCat("memory ", limits.data_bytes >> 20, " MiB, files ", limits.files, ", processes ",
                   limits.processes, "; 0: no limit; no core files"));
  Add(&report, "file_system", limits.file_system != 0 ? LimitFiles() : SwitchedOff(),
      "Landlock: reads the system's libraries, nothing else");
  // Last: it forbids the calls above.
  const absl::Status calls = limits.system_calls != 0 ? LimitSystemCalls() : SwitchedOff();
  Add(&report, "system_calls", calls, "seccomp: an allow list");
  Add(&report, "network", calls, "seccomp: no sockets");
  Add(&report, "processes", calls, "seccomp: no new processes, only threads");
  Add(&report, "descriptors", calls, "seccomp: those of the host stay open");
  return report;
}

}  // namespace pto::host
