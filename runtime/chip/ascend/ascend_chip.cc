#include "runtime/chip/ascend/ascend_chip.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/types/optional.h"
#include "runtime/base/error.h"
#include "runtime/chip/ascend/ascend_memory.h"
#include "runtime/chip/ascend/cann/library_search.h"

extern char** environ;

namespace pto::ascend {
namespace {

// The shape of a chip that does not tell.
constexpr uint32_t kUsualClusters = 24;
constexpr uint64_t kUsualMemory = uint64_t{32} << 30;
// For an operator who waits.
constexpr absl::Duration kRecoveryTime = absl::Seconds(8);

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

// Starts the hosts of all devices. The first that opens CANN says how many there are, whether it
// can use its own or not; a second one is asked if the first cannot even do that.
class Finder {
 public:
  Finder(uint32_t first_index, const AscendOptions& options, const cann::SearchResult& search)
      : first_index_(first_index),
        options_(options),
        folder_(search.folder),
        environment_(Environment(search)),
        begin_(absl::Now()) {}

  void Run(AscendChips* found) {
    uint32_t count = 0;
    for (uint32_t asked = 0; asked < 2 && count == 0; ++asked) {
      StartHost(asked);
      // A device that hangs leaves time for the next.
      found->trouble.Update(Await(*hosts_[asked], asked == 0 ? 0.5 : 1).status());
      count = hosts_[asked]->device_count();
    }
    if (count == 0) return;
    count = std::min(count, options_.max_chips);
    while (hosts_.size() < count) StartHost(static_cast<uint32_t>(hosts_.size()));
    hosts_.resize(count);
    AddChips(found);
  }

 private:
  void StartHost(uint32_t device) {
    ChipHostOptions host;
    host.name = absl::StrCat("chips/", first_index_ + device);
    host.program = options_.program;
    host.cann_path = folder_;
    host.environment = environment_;
    host.device = static_cast<int32_t>(device);
    host.start_timeout = options_.start_timeout;
    hosts_.push_back(ChipHost::Start(std::move(host)));
  }

  // Until a part of the time for all is over: they start at the same time.
  absl::StatusOr<ChipInfo> Await(ChipHost& host, double part = 1) const {
    const absl::Duration left = begin_ + part * options_.start_timeout - absl::Now();
    return host.AwaitReady(std::max(left, absl::Milliseconds(1)));
  }

  void AddChips(AscendChips* found) {
    engine::ChipSpec usual;
    usual.backend = "ascend";
    usual.clusters = kUsualClusters;
    usual.memory_bytes = kUsualMemory;
    usual.host_visible = false;
    std::vector<absl::optional<engine::ChipSpec>> specs;
    for (const std::shared_ptr<ChipHost>& host : hosts_) {
      const absl::StatusOr<ChipInfo> info = Await(*host);
      specs.emplace_back();
      found->trouble.Update(info.status());
      if (!info.ok()) continue;
      engine::ChipSpec spec = usual;
      spec.clusters = ClustersOf(*info);
      spec.memory_bytes = info->memory_bytes;
      specs.back() = spec;
    }
    for (const auto& spec : specs) {
      if (spec.has_value()) usual = *spec;
    }
    for (size_t i = 0; i < hosts_.size(); ++i) {
      found->chips.push_back(std::make_shared<AscendChip>(first_index_ + static_cast<uint32_t>(i),
                                                          specs[i].has_value() ? *specs[i] : usual,
                                                          hosts_[i]));
    }
  }

  const uint32_t first_index_;
  const AscendOptions& options_;
  const std::string folder_;
  const std::vector<std::string> environment_;
  const absl::Time begin_;
  std::vector<std::shared_ptr<ChipHost>> hosts_;
};

}  // namespace

AscendChip::AscendChip(uint32_t index, engine::ChipSpec spec, std::shared_ptr<ChipHost> host)
    : Chip(index, spec, AscendMemory::Create(index, spec.memory_bytes, host)),
      host_(std::move(host)),
      seen_faults_(host_->faults().count) {}

std::string AscendChip::Probe() {
  const ChipHost::Faults faults = host_->faults();
  const uint64_t seen = seen_faults_.exchange(faults.count);
  const std::string trouble = host_->trouble();
  if (!trouble.empty() || seen == faults.count) return trouble;
  return faults.last;
}

absl::Status AscendChip::Recover() {
  const absl::Status recovered = host_->Recover(kRecoveryTime);
  // What was wrong before is over.
  if (recovered.ok()) seen_faults_ = host_->faults().count;
  return recovered;
}

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
  Finder(first_index, options, search).Run(&found);
  return found;
}

}  // namespace pto::ascend
