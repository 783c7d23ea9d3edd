#include "comm/hccl/hccl_config.h"

#include <algorithm>
#include <cstring>

namespace pto::comm {

HcclConfig::HcclConfig(const HcclOptions& options, uint32_t capability) {
  cann::HcclConfigV5& v5 = config_.v5;
  v5.prologue.size = cann::kHcclConfigV5Bytes;
  v5.prologue.version = 5;
  v5.buffer_mib = std::max(options.buffer_mib, 1u);
  std::memcpy(v5.name, options.name.data(), std::min(options.name.size(), sizeof v5.name - 1));
  if (capability <= cann::kCapabilityExecTimeout) return;
  v5.prologue.size = cann::kHcclConfigV8Bytes;
  v5.prologue.version = 8;
  config_.exec_timeout_s = static_cast<uint32_t>(
      std::clamp<int64_t>(absl::ToInt64Seconds(options.operator_timeout), 1, 2147483647));
}

}  // namespace pto::comm
