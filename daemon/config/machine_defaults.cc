#include "daemon/config/machine_defaults.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "daemon/config/units.h"

namespace pto::daemon {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

// The rest is for what is not counted: code, stacks, messages, page tables.
uint64_t MostOf(uint64_t bytes) { return bytes / 4 * 3; }

bool IsDefault(const EffectiveConfig& effective, absl::string_view key) {
  for (size_t i = 0; i < effective.origins.size(); ++i) {
    if (AllSettings()[i].key == key) return effective.origins[i] == Origin::kDefault;
  }
  return false;
}

}  // namespace

std::vector<std::string> ApplyMachine(uint64_t host_bytes, EffectiveConfig* effective) {
  std::vector<std::string> warnings;
  config::v1::LimitsConfig& limits = *effective->config.mutable_limits();
  if (limits.max_memory_bytes() == 0) {
    limits.set_max_memory_bytes(std::max(MostOf(host_bytes), kMiB));
  } else if (limits.max_memory_bytes() > host_bytes) {
    warnings.push_back(absl::StrCat("limits.max_memory_bytes is ",
                                    FormatBytes(limits.max_memory_bytes()),
                                    ", but the daemon may use only ", FormatBytes(host_bytes)));
  }
  const uint64_t most = limits.max_memory_bytes();
  if (limits.max_client_memory_bytes() == 0) {
    limits.set_max_client_memory_bytes(std::max(MostOf(most), std::min(most, kMiB)));
  }
  limits.set_max_client_memory_bytes(std::min(limits.max_client_memory_bytes(), most));

  config::v1::SimChips& chips = *effective->config.mutable_sim_chips();
  if (chips.count() == 0) return warnings;
  const uint64_t share = std::max(most / chips.count() / kMiB * kMiB, kMiB);
  if (IsDefault(*effective, "sim_chips.memory_bytes")) {
    chips.set_memory_bytes(std::min(chips.memory_bytes(), share));
    return warnings;
  }
  if (chips.memory_bytes() > most) {
    const uint64_t whole = std::max(most / kMiB * kMiB, kMiB);
    warnings.push_back(absl::StrCat("sim_chips.memory_bytes is ", FormatBytes(chips.memory_bytes()),
                                    ", more than limits.max_memory_bytes; each chip has ",
                                    FormatBytes(whole)));
    chips.set_memory_bytes(whole);
  }
  if (chips.memory_bytes() > share) {
    warnings.push_back(absl::StrCat("the simulated chips have more memory together than ",
                                    FormatBytes(most), ", which limits.max_memory_bytes allows"));
  }
  return warnings;
}

}  // namespace pto::daemon
