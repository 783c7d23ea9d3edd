#include "tests/harness/holdings.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gtest/gtest.h"

namespace pto::testing {
namespace {

constexpr absl::Duration kStep = absl::Milliseconds(10);

// Repeats a call that a failpoint may have lost.
template <typename Stub, typename Request, typename Response>
absl::StatusOr<Response> Ask(Stub& stub,
                             grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&,
                                                          Response*),
                             const Request& request) {
  constexpr int kMost = 50;
  absl::StatusOr<Response> response = Call(stub, method, request);
  for (int i = 0; i < kMost &&
                  (absl::IsUnavailable(response.status()) || absl::IsCancelled(response.status()));
       ++i) {
    response = Call(stub, method, request);
  }
  return response;
}

bool IsShared(absl::string_view path) {
  return absl::StrContains(path, "/memfd:") || absl::StartsWith(path, "/dev/shm/");
}

size_t CountSharedMappings(pid_t pid) {
  std::ifstream maps(absl::StrCat("/proc/", pid, "/maps"));
  size_t count = 0;
  for (std::string line; std::getline(maps, line);) {
    const size_t path = line.find('/');
    if (path != std::string::npos && IsShared(absl::string_view(line).substr(path))) ++count;
  }
  return count;
}

void CountFiles(pid_t pid, Holdings* holdings) {
  std::error_code error;
  for (const auto& entry :
       std::filesystem::directory_iterator(absl::StrCat("/proc/", pid, "/fd"), error)) {
    ++holdings->files;
    std::error_code gone;
    const std::string target = std::filesystem::read_symlink(entry.path(), gone).string();
    if (!gone && IsShared(target)) ++holdings->shared_memory;
  }
}

// Describes each open file, to find out which one should have been closed.
std::string ListFiles(pid_t pid) {
  std::string list;
  std::error_code error;
  for (const auto& entry :
       std::filesystem::directory_iterator(absl::StrCat("/proc/", pid, "/fd"), error)) {
    std::error_code gone;
    const std::string target = std::filesystem::read_symlink(entry.path(), gone).string();
    absl::StrAppend(&list, "\n  ", entry.path().filename().string(), " -> ", target);
  }
  return list;
}

}  // namespace

bool Holdings::IsBack(const Holdings& baseline) const {
  return sessions == 0 && runs == 0 && busy_cores == 0 && ready_tasks == 0 && device_bytes == 0 &&
         leased_chips == 0 && files <= baseline.files && shared_memory <= baseline.shared_memory;
}

std::string Holdings::ToString() const {
  return absl::StrCat(sessions, " sessions, ", runs, " runs, ", busy_cores, " busy cores, ",
                      ready_tasks, " ready tasks, ", device_bytes, " bytes on chips, ",
                      leased_chips, " leased chips, ", files, " files, ", shared_memory,
                      " shared memories");
}

absl::StatusOr<Holdings> LookAt(DaemonProcess& daemon) {
  Api& api = daemon.api();
  Holdings holdings;
  const auto node = Ask(*api.node, &v1::NodeService::Stub::GetNode, v1::GetNodeRequest());
  if (!node.ok()) return node.status();
  holdings.sessions = node->session_count();
  holdings.runs = node->active_run_count();
  v1::ListChipsRequest list;
  list.set_page_size(1000);
  const auto chips = Ask(*api.node, &v1::NodeService::Stub::ListChips, list);
  if (!chips.ok()) return chips.status();
  for (const v1::Chip& chip : chips->chips()) {
    holdings.busy_cores += chip.busy_cores();
    holdings.ready_tasks += chip.ready_tasks();
    holdings.device_bytes += chip.memory_used_bytes();
    if (!chip.lease().empty()) ++holdings.leased_chips;
  }
  CountFiles(daemon.pid(), &holdings);
  holdings.shared_memory += CountSharedMappings(daemon.pid());
  return holdings;
}

absl::Duration AwaitBaseline(DaemonProcess& daemon, const Holdings& baseline,
                             absl::Duration timeout) {
  const absl::Time start = absl::Now();
  while (true) {
    const absl::StatusOr<Holdings> now = LookAt(daemon);
    const absl::Duration passed = absl::Now() - start;
    if (now.ok() && now->IsBack(baseline)) return passed;
    if (passed > timeout || !now.ok()) {
      ADD_FAILURE() << "after " << passed << " there is "
                    << (now.ok() ? now->ToString() : now.status().ToString())
                    << "; the baseline was " << baseline.ToString()
                    << "; open files:" << ListFiles(daemon.pid());
      return passed;
    }
    absl::SleepFor(kStep);
  }
}

}  // namespace pto::testing
