#include "runtime/chip/ascend/doctor/doctor.h"

#include "runtime/chip/ascend/cann/library_search.h"
#include "runtime/chip/ascend/doctor/cann_probe.h"
#include "runtime/chip/ascend/doctor/machine_checks.h"

namespace pto::ascend {
namespace {

constexpr int kProbeSeconds = 20;

}  // namespace

std::vector<Finding> Examine(const std::string& cann_path, const std::string& devices) {
  const cann::SearchResult search = cann::FindCann(cann::SearchInput::FromEnvironment(cann_path));
  std::vector<Finding> findings;
  CheckToolkit(search, &findings);
  CheckDeviceNodes(devices, &findings);
  for (Finding& finding : ProbeInChild(search, kProbeSeconds)) {
    findings.push_back(std::move(finding));
  }
  CheckNetwork(&findings);
  CheckLimits(&findings);
  CheckSandbox(&findings);
  return findings;
}

}  // namespace pto::ascend
