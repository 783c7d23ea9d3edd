#pragma once

#include <atomic>
#include <cstdint>
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

  // Also tells, once, of a fault that is over: what was on the chip is gone.
  std::string Probe() override;
  absl::Status Recover() override;
  const std::shared_ptr<ChipHost>& host() const { return host_; }

 private:
  const std::shared_ptr<ChipHost> host_;
  std::atomic<uint64_t> seen_faults_{0};
};

struct AscendOptions {
  std::string program;    // ptod_chip_host
  std::string cann_path;  // empty: it is searched
  uint32_t max_chips = 256;
  // Of a host. Chips are looked for so long; those that are not ready then may become so later.
  absl::Duration start_timeout = absl::Seconds(60);
};

struct AscendChips {
  std::vector<std::shared_ptr<engine::Chip>> chips;
  // Why there are none, or why some cannot be used now.
  absl::Status trouble;
  std::string folder;  // where CANN is
};

// All Ascend chips of this machine, with indices from `first_index` on, in the order of their
// devices. Looks for CANN without opening it, and starts a host for each device. A chip that cannot
// be used now keeps its place, is faulted, and is tried again; it counts as one like the others.
AscendChips FindAscendChips(uint32_t first_index, const AscendOptions& options);

}  // namespace pto::ascend
