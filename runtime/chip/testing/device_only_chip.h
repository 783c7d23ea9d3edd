#pragma once

#include <cstdint>
#include <memory>

#include "runtime/chip/chip.h"

namespace pto::engine::testing {

// A chip with two clusters whose memory the host can copy but not dereference. Never faulty.
std::shared_ptr<Chip> MakeDeviceOnlyChip(uint32_t index, uint64_t memory_bytes);

}  // namespace pto::engine::testing
