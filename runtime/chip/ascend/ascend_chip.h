#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "runtime/chip/ascend/chip_host.h"
#include "runtime/chip/chip.h"

namespace pto::ascend {

// An Ascend chip, driven by a process of its own. Thread-safe.
class AscendChip final : public engine::Chip {
 public:
  AscendChip(uint32_t index, engine::ChipSpec spec, std::shared_ptr<ChipHost> host);

  std::string Probe() override { return host_->trouble(); }
  const std::shared_ptr<ChipHost>& host() const { return host_; }

 private:
  const std::shared_ptr<ChipHost> host_;
};

struct AscendOptions {
  std::string program;    // ptod_chip_host
  std::string cann_path;  // empty: it is searched
  uint32_t max_chips = 256;
  absl::Duration start_timeout = absl::Seconds(60);
};

struct AscendChips {
  std::vector<std::shared_ptr<engine::Chip>> chips;
  // Why there are none, or not all.
  absl::Status trouble;
  std::string folder;  // where CANN is
};

// All Ascend chips of this machine, with indices from `first_index` on. Looks for CANN without
// opening it, and starts a host for each device. A chip that cannot be used is left out.
AscendChips FindAscendChips(uint32_t first_index, const AscendOptions& options);

}  // namespace pto::ascend
