#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "runtime/chip/chip.h"

namespace pto::engine {

// A simulated chip: memory and threads of this process. Only the failpoints `chip.fault` and
// `chip.fault.<index>` make it faulty.
class SimChip final : public Chip {
 public:
  SimChip(uint32_t index, ChipSpec spec);
  // With 24 clusters and 16 GiB by default.
  static std::shared_ptr<Chip> Create(uint32_t index, uint32_t clusters = ChipSpec().clusters,
                                      uint64_t memory_bytes = ChipSpec().memory_bytes);

  std::string Probe() override;
};

}  // namespace pto::engine
