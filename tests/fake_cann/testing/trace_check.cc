#include "tests/fake_cann/testing/trace_check.h"

#include <fstream>
#include <map>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace pto::ascend::testing {
namespace {

struct Process {
  std::map<std::string, int> succeeded;
  bool finalized = false;
};

// What takes a resource, and what gives it back.
constexpr const char* kPairs[][2] = {
    {"aclrtMalloc", "aclrtFree"},
    {"aclrtMallocHost", "aclrtFreeHost"},
    {"aclrtCreateStream", "aclrtDestroyStream"},
    {"aclrtCreateEventExWithFlag", "aclrtDestroyEvent"},
    {"aclrtBinaryLoadFromFile", "aclrtBinaryUnLoad"},
    {"aclrtMallocPhysical", "aclrtFreePhysical"},
    {"aclrtReserveMemAddress", "aclrtReleaseMemAddress"},
    {"aclrtMapMem", "aclrtUnmapMem"},
    {"HcclCommInitRootInfoConfig", "HcclCommDestroy"},
    {"aclrtSetDevice", "aclrtResetDevice"},
    {"aclInit", "aclFinalize"},
};

}  // namespace

std::vector<std::string> FindBreaches(absl::Span<const std::string> lines, bool lost) {
  std::vector<std::string> breaches;
  std::map<std::string, Process> processes;
  for (const std::string& line : lines) {
    if (absl::StrContains(line, "VIOLATION")) breaches.push_back(line);
    // Time, process, thread, device, call.
    const std::vector<std::string> parts = absl::StrSplit(line, ' ');
    if (parts.size() < 5 || !absl::StrContains(line, "(")) continue;
    const std::string name = parts[4].substr(0, parts[4].find('('));
    Process& process = processes[parts[1]];
    if (process.finalized && name != "aclInit" && name != "aclrtGetDeviceCount") {
      breaches.push_back("after aclFinalize: " + line);
    }
    if (name == "aclInit") process.finalized = false;
    if (name == "aclFinalize") process.finalized = true;
    if (absl::EndsWith(line, " = 0")) ++process.succeeded[name];
  }
  if (lost) return breaches;
  for (auto& [pid, process] : processes) {
    for (const auto& [take, give] : kPairs) {
      const int taken = process.succeeded[take];
      const int given = process.succeeded[give] + process.succeeded[absl::StrCat(give, "Force")];
      if (given < taken) {
        breaches.push_back(absl::StrCat("process ", pid, ": ", take, " succeeded ", taken,
                                        " times, and ", give, " ", given, " times"));
      }
    }
  }
  return breaches;
}

std::vector<std::string> ReadTrace(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

}  // namespace pto::ascend::testing
