#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/chip/device_memory.h"
#include "runtime/engine/run.h"

namespace pto {

// A buffer of a session. Its memory lives as long as anything uses it.
struct SessionBuffer {
  std::string id;
  std::shared_ptr<MemoryBlock> memory;
  // Runs that are queued or running and use it.
  std::atomic<uint32_t> in_use{0};
  // Deleted, or its session has ended: what still holds it must let go. Never taken back.
  std::atomic<bool> removed{false};
};

// The buffers in a graph's slots.
struct BoundSlots {
  RunSlots slots;
  std::vector<std::shared_ptr<SessionBuffer>> buffers;
};

}  // namespace pto
