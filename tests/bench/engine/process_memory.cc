#include "tests/bench/engine/process_memory.h"

#include <fstream>
#include <limits>
#include <string>

namespace pto::bench {
namespace {

// The number in a line such as `Anonymous:  1696 kB`.
absl::optional<uint64_t> ReadKilobytes(const char* file, const std::string& key) {
  std::ifstream in(file);
  std::string word;
  while (in >> word) {
    uint64_t value = 0;
    if (word == key && in >> value) return value * 1024;
    in.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return absl::nullopt;
}

}  // namespace

uint64_t ResidentBytes() {
  return ReadKilobytes("/proc/self/smaps_rollup", "Anonymous:").value_or(0);
}

bool ResetPeakResident() {
  std::ofstream out("/proc/self/clear_refs");
  out << "5" << std::flush;
  return out.good();
}

absl::optional<uint64_t> PeakResidentBytes() {
  return ReadKilobytes("/proc/self/status", "VmHWM:");
}

}  // namespace pto::bench
