#include "runtime/base/host_memory.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace pto {
namespace {

constexpr uint64_t kNone = std::numeric_limits<uint64_t>::max();

// The number at the beginning of a file; kNone if there is no such file, or no number.
uint64_t ReadNumber(const std::string& path) {
  std::ifstream file(path);
  std::string word;
  uint64_t number = 0;
  return file >> word && absl::SimpleAtoi(word, &number) ? number : kNone;
}

// MemTotal, in KiB there.
uint64_t MachineBytes(const std::string& root) {
  std::ifstream file(root + "/proc/meminfo");
  std::string key;
  uint64_t kib = 0;
  while (file >> key) {
    if (key == "MemTotal:" && file >> kib) return kib << 10;
    file.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  const int64_t pages = sysconf(_SC_PHYS_PAGES);
  const int64_t page = sysconf(_SC_PAGESIZE);
  return pages > 0 && page > 0 ? static_cast<uint64_t>(pages) * static_cast<uint64_t>(page) : kNone;
}

// The smallest limit of the group and those above it.
uint64_t GroupBytes(const std::string& mount, std::string group, absl::string_view file) {
  uint64_t bytes = kNone;
  while (true) {
    bytes = std::min(bytes, ReadNumber(absl::StrCat(mount, group, "/", file)));
    const size_t slash = group.rfind('/');
    if (slash == std::string::npos) return bytes;
    group.resize(slash);
  }
}

// Lines such as `0::/system.slice/ptod.service`, or with version 1 `4:memory:/docker/0123`.
uint64_t CgroupBytes(const std::string& root) {
  std::ifstream file(root + "/proc/self/cgroup");
  uint64_t bytes = kNone;
  for (std::string line; std::getline(file, line);) {
    const std::vector<std::string> parts = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() != 3) continue;
    const std::string group = parts[2] == "/" ? "" : parts[2];
    if (parts[0] == "0" && parts[1].empty()) {
      bytes = std::min(bytes, GroupBytes(root + "/sys/fs/cgroup", group, "memory.max"));
    }
    for (const absl::string_view controller : absl::StrSplit(parts[1], ',')) {
      if (controller != "memory") continue;
      // In a container, the group's own directory is often the mount itself.
      bytes = std::min(bytes,
                       GroupBytes(root + "/sys/fs/cgroup/memory", group, "memory.limit_in_bytes"));
    }
  }
  return bytes;
}

}  // namespace

uint64_t HostMemoryBytes(const std::string& root) {
  uint64_t bytes = std::min(MachineBytes(root), CgroupBytes(root));
  rlimit limit = {};
  if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
    bytes = std::min<uint64_t>(bytes, limit.rlim_cur);
  }
  return bytes;
}

uint64_t MaxMappings(const std::string& root) {
  constexpr uint64_t kUsual = 65'530;
  const uint64_t most = ReadNumber(root + "/proc/sys/vm/max_map_count");
  return most == kNone ? kUsual : most;
}

}  // namespace pto
