#pragma once

#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "runtime/chip/ascend/cann/hccl_abi.h"

namespace pto::comm {

struct HcclOptions {
  // Unique within a process, and the same for all ranks: for example the domain and its generation.
  std::string name;
  // Each communicator takes twice as much of the device's memory.
  uint32_t buffer_mib = 16;
  // After which an operator that waits for a rank fails on the device. Needs CANN 8.5; before that
  // it is 1,836 s.
  absl::Duration operator_timeout = absl::Seconds(60);
  // For the first operator, with which ranks connect.
  absl::Duration warm_up_timeout = absl::Seconds(120);
};

// The configuration of a communicator, of the oldest version that has what is wanted: the library
// reads what the version covers and no more.
class HcclConfig {
 public:
  // `capability` is the result of HcclGetCommConfigCapability; 0 if there is no such function.
  HcclConfig(const HcclOptions& options, uint32_t capability);

  const void* data() const { return &config_; }
  uint32_t version() const { return config_.v5.prologue.version; }
  uint64_t bytes() const { return config_.v5.prologue.size; }

 private:
  cann::HcclConfigV8 config_;
};

}  // namespace pto::comm
