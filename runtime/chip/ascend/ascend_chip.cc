#include "runtime/chip/ascend/ascend_chip.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "runtime/base/error.h"
#include "runtime/base/log.h"
#include "runtime/chip/ascend/ascend_memory.h"
#include "runtime/chip/ascend/cann/library_search.h"

extern char** environ;

namespace pto::ascend {
namespace {

// The shape of a chip that does not tell.
constexpr uint32_t kUsualClusters = 24;

// What CANN and its fake read, and the path of their libraries, which must be there from the start.
std::vector<std::string> Environment(const cann::SearchResult& search) {
  std::vector<std::string> out = {absl::StrCat("LD_LIBRARY_PATH=", search.LibraryPath())};
  for (char** each = environ; *each != nullptr; ++each) {
    const absl::string_view line = *each;
    if (absl::StartsWith(line, "ASCEND_") || absl::StartsWith(line, "HCCL_") ||
        absl::StartsWith(line, "FAKE_CANN_") || absl::StartsWith(line, "HOME=") ||
        absl::StartsWith(line, "TEST_TMPDIR=")) {
      out.emplace_back(line);
    }
  }
  return out;
}

// A cluster is a cube core and two vector cores.
uint32_t ClustersOf(const ChipInfo& info) {
  const uint32_t clusters = std::min(info.cube_cores, info.vector_cores / 2);
  return clusters == 0 ? kUsualClusters : clusters;
}

}  // namespace

AscendChip::AscendChip(uint32_t index, engine::ChipSpec spec, std::shared_ptr<ChipHost> host)
    : Chip(index, spec, AscendMemory::Create(index, spec.memory_bytes, host)),
      host_(std::move(host)) {}

AscendChips FindAscendChips(uint32_t first_index, const AscendOptions& options) {
  AscendChips found;
  const cann::SearchResult search =
      cann::FindCann(cann::SearchInput::FromEnvironment(options.cann_path));
  found.folder = search.folder;
  if (!search.found()) {
    std::string looked;
    for (const cann::SearchStep& step : search.steps) {
      absl::StrAppend(&looked, looked.empty() ? "" : "; ", step.from,
                      step.folder.empty() ? "" : " ", step.folder, " ", step.result);
    }
    found.trouble = Error(reason::kCannUnusable,
                          absl::StrCat("the libraries of CANN were not found: ", looked));
    return found;
  }
  const std::vector<std::string> environment = Environment(search);
  uint32_t devices = 1;
  std::vector<std::shared_ptr<ChipHost>> hosts;
  for (uint32_t device = 0; device < devices; ++device) {
    ChipHostOptions host;
    host.name = absl::StrCat("chips/", first_index + device);
    host.program = options.program;
    host.cann_path = search.folder;
    host.environment = environment;
    host.device = static_cast<int32_t>(device);
    host.start_timeout = options.start_timeout;
    hosts.push_back(ChipHost::Start(std::move(host)));
    if (device > 0) continue;
    // The first says how many there are; the others start at the same time.
    const absl::StatusOr<ChipInfo> info = hosts[0]->AwaitReady(options.start_timeout);
    if (!info.ok()) {
      found.trouble = info.status();
      return found;
    }
    devices = std::min(info->device_count, options.max_chips);
  }
  for (const std::shared_ptr<ChipHost>& host : hosts) {
    const absl::StatusOr<ChipInfo> info = host->AwaitReady(options.start_timeout);
    if (!info.ok()) {
      found.trouble.Update(info.status());
      continue;
    }
    engine::ChipSpec spec;
    spec.backend = "ascend";
    spec.clusters = ClustersOf(*info);
    spec.memory_bytes = info->memory_bytes;
    found.chips.push_back(std::make_shared<AscendChip>(
        first_index + static_cast<uint32_t>(found.chips.size()), std::move(spec), host));
  }
  return found;
}

}  // namespace pto::ascend
