#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "kernels/pto_kernel.h"

// For tests of kernels that work in phases, without an engine.
namespace pto::kernels::collectives {

// The arguments of one rank.
using RankTensors = std::vector<pto_tensor>;

// A dense view of this many elements.
pto_tensor DenseTensor(uint32_t dtype, int64_t count, void* data);

struct PhaseResult {
  std::string refused;  // why the plan refused; empty if it accepted
  pto_plan plan = {};
  int32_t code = 0;   // of the first call that failed
  std::string error;  // the error text of that call
};

// Makes the plan, then all calls of all phases sequentially, the last rank and block first.
// `planned` is called between the plan and the calls, `phase_begins` before the calls of each
// phase.
PhaseResult RunPhases(
    const pto_kernel_info& kernel, const std::vector<RankTensors>& ranks,
    const std::vector<int64_t>& scalars, uint32_t block_count = 1,
    const std::function<void()>& planned = [] {},
    const std::function<void(uint32_t)>& phase_begins = [](uint32_t) {});

}  // namespace pto::kernels::collectives
