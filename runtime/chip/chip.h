#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "runtime/chip/device_memory.h"

namespace pto {

// What a chip is made of.
struct ChipSpec {
  std::string backend = "sim";
  uint32_t clusters = 24;
  uint64_t memory_bytes = uint64_t{16} << 30;
};

// One NPU of the node: its shape and its memory. The engine keeps its cores and queues.
struct Chip {
  uint32_t index = 0;
  ChipSpec spec;
  std::shared_ptr<DeviceMemory> memory;
};

}  // namespace pto
