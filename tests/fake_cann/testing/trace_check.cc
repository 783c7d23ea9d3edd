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
  std::map<std::string, std::string> threads;  // that use each device
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
    // Whatever the call is, one thread makes all those of a device, until the device is reset.
    const std::string& device = parts[3];
    if (device != "dev-1") {
      std::string& owner = process.threads[device];
      if (owner.empty()) owner = parts[2];
      if (owner != parts[2]) breaches.push_back("from a second thread: " + line);
      if (absl::StartsWith(name, "aclrtResetDevice")) owner.clear();
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
