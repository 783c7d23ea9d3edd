#include "runtime/chip/ascend/doctor/cann_probe.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/base/error.h"
#include "runtime/base/file_descriptor.h"
#include "runtime/chip/ascend/cann/acl_codes.h"
#include "runtime/chip/ascend/cann/loader.h"

extern char** environ;

namespace pto::ascend {
namespace {

using State = Finding::State;

constexpr size_t kMostOutput = size_t{1} << 20;

Finding Problem(const std::string& check, const absl::Status& status) {
  const absl::optional<ErrorDetail> detail = GetErrorDetail(status);
  return {check, State::kProblem, std::string(status.message()),
          detail.has_value() ? detail->hint : ""};
}

// The environment of this process, with another library path.
std::vector<std::string> EnvironmentWith(const std::string& library_path) {
  std::vector<std::string> out;
  for (char** each = environ; *each != nullptr; ++each) {
    if (!absl::StartsWith(*each, "LD_LIBRARY_PATH=")) out.emplace_back(*each);
  }
  out.push_back(absl::StrCat("LD_LIBRARY_PATH=", library_path));
  return out;
}

// Reads until the end, or until the time is over. Returns whether the end was reached.
bool ReadAll(int from, std::chrono::steady_clock::time_point until, std::string* out) {
  char buffer[4096];
  while (out->size() < kMostOutput) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        until - std::chrono::steady_clock::now());
    if (left.count() <= 0) return false;
    pollfd ready = {from, POLLIN, 0};
    if (poll(&ready, 1, static_cast<int>(left.count())) <= 0) continue;
    const ssize_t got = read(from, buffer, sizeof buffer);
    if (got <= 0) return true;
    out->append(buffer, static_cast<size_t>(got));
  }
  return true;
}

}  // namespace

std::vector<Finding> ProbeCann(const cann::SearchResult& search) {
  std::vector<Finding> findings;
  const absl::StatusOr<cann::Cann> cann = cann::LoadCann(search);
  if (!cann.ok()) return {Problem("libraries", cann.status())};
  findings.push_back({"libraries", State::kOk, "opened, with all required functions", ""});
  const std::vector<cann::Capability> missing = cann->functions.Missing();
  findings.push_back(
      {"functions", missing.empty() ? State::kOk : State::kNote,
       missing.empty()
           ? "all"
           : absl::StrCat("this release has no ",
                          absl::StrJoin(missing, ", ",
                                        [](std::string* out, cann::Capability capability) {
                                          absl::StrAppend(out, cann::NameOf(capability));
                                        })),
       ""});
  const absl::Status versions = cann::CheckVersions(*cann);
  if (!versions.ok()) {
    findings.push_back(Problem("versions", versions));
  } else {
    findings.push_back({"versions", State::kOk,
                        absl::StrCat("runtime ", cann->runtime_version, ", hccl ",
                                     cann->hccl_version, ", driver ", cann->driver_version),
                        ""});
  }
  const cann::Functions& acl = cann->functions;
  const auto failed = [&](cann::AclError code, const char* what) {
    if (code == cann::kAclOk || code == cann::kAclRepeatInit) return false;
    findings.push_back(Problem("devices", cann::AclStatus(code, what, acl.aclGetRecentErrMsg())));
    return true;
  };
  if (failed(acl.aclInit(nullptr), "initialising AscendCL")) return findings;
  uint32_t count = 0;
  if (!failed(acl.aclrtGetDeviceCount(&count), "counting the devices")) {
    const char* const soc = count == 0 ? "" : acl.aclrtGetSocName();
    findings.push_back({"devices", count == 0 ? State::kProblem : State::kOk,
                        absl::StrCat(count, " devices ", soc == nullptr ? "" : soc),
                        count == 0 ? "see `npu-smi info`, and ASCEND_RT_VISIBLE_DEVICES" : ""});
  }
  (void)acl.aclFinalize();
  return findings;
}

std::vector<Finding> ProbeInChild(const cann::SearchResult& search, int seconds) {
  if (!search.found()) return {};
  int pipes[2];
  if (pipe2(pipes, O_CLOEXEC) != 0) return {};
  const FileDescriptor from(pipes[0]);
  FileDescriptor to(pipes[1]);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_adddup2(&files, to.get(), STDOUT_FILENO);
  std::vector<std::string> environment = EnvironmentWith(search.LibraryPath());
  std::vector<char*> envp;
  for (std::string& each : environment) envp.push_back(each.data());
  envp.push_back(nullptr);
  std::string folder = search.folder;
  char program[] = "/proc/self/exe";
  char mode[] = "--probe";
  char option[] = "--cann-path";
  char* const argv[] = {program, mode, option, folder.data(), nullptr};
  pid_t pid = -1;
  const int error = posix_spawn(&pid, program, &files, nullptr, argv, envp.data());
  posix_spawn_file_actions_destroy(&files);
  to = FileDescriptor();
  if (error != 0) {
    return {{"libraries", State::kProblem,
             absl::StrCat("the probe cannot be started: ", std::strerror(error)), ""}};
  }
  std::string output;
  const bool ended = ReadAll(
      from.get(), std::chrono::steady_clock::now() + std::chrono::seconds(seconds), &output);
  if (!ended) kill(pid, SIGKILL);
  int status = 0;
  waitpid(pid, &status, 0);
  std::vector<Finding> findings = FromLines(output);
  if (!ended) {
    findings.push_back({"libraries", State::kProblem,
                        absl::StrCat("a call of CANN did not return within ", seconds, " s"),
                        "see `npu-smi info`: does the driver answer?"});
  } else if (WIFSIGNALED(status)) {
    findings.push_back({"libraries", State::kProblem,
                        absl::StrCat("CANN has ended the probe with signal ", WTERMSIG(status)),
                        "does the toolkit suit the driver and this machine?"});
  }
  return findings;
}

}  // namespace pto::ascend
