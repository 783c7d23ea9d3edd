#include "runtime/chip/ascend/doctor/cann_probe.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "runtime/base/error.h"
#include "runtime/chip/ascend/cann/acl_codes.h"
#include "runtime/chip/ascend/cann/loader.h"
#include "runtime/chip/ascend/doctor/child_output.h"

extern char** environ;

namespace pto::ascend {
namespace {

using State = Finding::State;

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
  const ChildOutput child = RunChild({"/proc/self/exe", "--probe", "--cann-path", search.folder},
                                     EnvironmentWith(search.LibraryPath()), absl::Seconds(seconds));
  if (child.error != 0) {
    return {{"libraries", State::kProblem,
             absl::StrCat("the probe cannot be started: ", std::strerror(child.error)), ""}};
  }
  std::vector<Finding> findings = FromLines(child.text);
  if (!child.ended) {
    findings.push_back({"libraries", State::kProblem,
                        absl::StrCat("a call of CANN did not return within ", seconds, " s"),
                        "see `npu-smi info`: does the driver answer?"});
  } else if (WIFSIGNALED(child.status)) {
    findings.push_back(
        {"libraries", State::kProblem,
         absl::StrCat("CANN has ended the probe with signal ", WTERMSIG(child.status)),
         "does the toolkit suit the driver and this machine?"});
  }
  return findings;
}

}  // namespace pto::ascend
