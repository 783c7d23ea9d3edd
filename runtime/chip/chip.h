#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "runtime/chip/device_memory.h"

namespace pto::engine {

// The properties of a chip.
struct ChipSpec {
  std::string backend;  // the driver of the chip, visible to clients
  uint32_t clusters = 24;
  uint64_t memory_bytes = uint64_t{16} << 30;
  // Whether the host can dereference its memory. Without that it runs no tasks for the chip.
  bool host_visible = true;
};

// One NPU of the node: its shape, memory and health. The engine manages its cores and queues.
// Thread-safe.
//
// Kernels run on engine threads, on memory that the host can dereference. A chip that runs kernels
// itself will get a launch function here, for an execution lane of the engine.
class Chip {
 public:
  virtual ~Chip() = default;
  Chip(const Chip&) = delete;
  Chip& operator=(const Chip&) = delete;

  uint32_t index() const { return index_; }
  const ChipSpec& spec() const { return spec_; }
  DeviceMemory& memory() const { return *memory_; }

  // Returns what is wrong with the chip; empty if nothing is. Must return quickly. Called without
  // locks.
  virtual std::string Probe() = 0;

  // Looks at the device; if it has failed, resets it now and not after a pause, and waits until it
  // can be used, for seconds at most. The memory of a chip that is well keeps its contents. Called
  // without locks.
  virtual absl::Status Recover() { return absl::OkStatus(); }

 protected:
  Chip(uint32_t index, ChipSpec spec, std::shared_ptr<DeviceMemory> memory)
      : index_(index), spec_(std::move(spec)), memory_(std::move(memory)) {}

 private:
  const uint32_t index_;
  const ChipSpec spec_;
  const std::shared_ptr<DeviceMemory> memory_;
};

}  // namespace pto::engine
