// Landlock: https://docs.kernel.org/userspace-api/landlock.html. The headers of Debian 12 are older
// than most kernels, so what newer ones know is defined here.

#include <fcntl.h>
#include <linux/landlock.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "runtime/base/error.h"
#include "runtime/base/file_descriptor.h"
#include "runtime/host/sandbox.h"

namespace pto::host {
namespace {

// landlock_ruleset_attr of ABI 6.
struct Ruleset {
  uint64_t files = 0;
  uint64_t network = 0;
  uint64_t scoped = 0;
};

constexpr uint64_t kRefer = uint64_t{1} << 13;     // ABI 2
constexpr uint64_t kTruncate = uint64_t{1} << 14;  // ABI 3
constexpr uint64_t kIoctl = uint64_t{1} << 15;     // ABI 5
constexpr uint64_t kTcp = 3;                       // bind and connect; ABI 4
constexpr uint64_t kAbstractSockets = 1;           // ABI 6
constexpr uint64_t kSignals = 2;                   // ABI 6
// Everything that ABI 1 knows.
constexpr uint64_t kFirst = (uint64_t{1} << 13) - 1;
constexpr uint64_t kReadFile = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_EXECUTE;
constexpr uint64_t kReadFolder = kReadFile | LANDLOCK_ACCESS_FS_READ_DIR;

absl::Status Unavailable(absl::string_view call) {
  return Error(reason::kNotAvailable,
               absl::StrCat("Landlock: ", call, ": ", std::generic_category().message(errno)));
}

// What the dynamic loader and the C library read.
constexpr const char* kFolders[] = {"/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib"};
constexpr const char* kFiles[] = {"/etc/ld.so.cache", "/dev/null", "/dev/zero", "/dev/urandom",
                                  "/sys/devices/system/cpu/online"};

absl::Status Allow(int ruleset, const char* path, uint64_t access) {
  const FileDescriptor file(open(path, O_PATH | O_CLOEXEC));
  // What is not there needs no permission.
  if (!file.valid()) return absl::OkStatus();
  landlock_path_beneath_attr rule = {};
  rule.allowed_access = access;
  rule.parent_fd = file.get();
  if (syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) != 0) {
    return Unavailable(path);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status LimitFiles() {
  const int64_t abi =
      syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION);
  if (abi < 1) return Unavailable("not in this kernel");
  Ruleset ruleset;
  ruleset.files =
      kFirst | (abi >= 2 ? kRefer : 0) | (abi >= 3 ? kTruncate : 0) | (abi >= 5 ? kIoctl : 0);
  size_t size = offsetof(Ruleset, network);
  if (abi >= 4) {
    ruleset.network = kTcp;
    size = offsetof(Ruleset, scoped);
  }
  if (abi >= 6) {
    ruleset.scoped = kAbstractSockets | kSignals;
    size = sizeof ruleset;
  }
  const FileDescriptor rules(
      static_cast<int>(syscall(SYS_landlock_create_ruleset, &ruleset, size, 0)));
  if (!rules.valid()) return Unavailable("create_ruleset");
  for (const char* const folder : kFolders) {
    if (absl::Status added = Allow(rules.get(), folder, kReadFolder); !added.ok()) return added;
  }
  for (const char* const file : kFiles) {
    if (absl::Status added = Allow(rules.get(), file, LANDLOCK_ACCESS_FS_READ_FILE); !added.ok()) {
      return added;
    }
  }
  if (syscall(SYS_landlock_restrict_self, rules.get(), 0) != 0) {
    return Unavailable("restrict_self");
  }
  return absl::OkStatus();
}

}  // namespace pto::host
