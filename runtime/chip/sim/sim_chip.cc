#include "runtime/chip/sim/sim_chip.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/base/failpoint.h"
#include "runtime/chip/sim/sim_memory.h"

namespace pto::engine {
namespace {

ChipSpec WithBackend(ChipSpec spec) {
  spec.backend = "sim";
  return spec;
}

}  // namespace

SimChip::SimChip(uint32_t index, ChipSpec spec)
    : Chip(index, WithBackend(spec), SimMemory::Create(index, spec.memory_bytes)) {}

std::shared_ptr<Chip> SimChip::Create(uint32_t index, uint32_t clusters, uint64_t memory_bytes) {
  ChipSpec spec;
  spec.clusters = clusters;
  spec.memory_bytes = memory_bytes;
  return std::make_shared<SimChip>(index, std::move(spec));
}

std::string SimChip::Probe() {
  if (PTO_FAILPOINT("chip.fault") == FailAction::kNone &&
      PTO_FAILPOINT(absl::StrCat("chip.fault.", index())) == FailAction::kNone) {
    return "";
  }
  return "it does not answer a probe";
}

}  // namespace pto::engine
