#pragma once

#include <cstdint>
#include <vector>

#include "kernels/registry.h"
#include "runtime/graph/builder.h"

namespace pto::engine::testing {

// Kernels for tests of graphs; they do nothing.
//
//   nop    no argument, no scalar
//   axpy   out, x, y of one shape, F32 or F64; scalar alpha, FLOAT
//   step   data, any type; scalars rate, FLOAT, and count, INTEGER
//   cube   one argument, F16, on AIC
//   gang   no argument; its blocks have to start together
//   twist  as step, with its scalars the other way round, on AIV
//   waiter, blocker   no argument; declared to wait, and to block
//   join, notify, wait, wait_token, copy_async   as the built-in ones, done without a core
const KernelRegistry& GraphTestKernels();

// A node with these kernels, and chips with the given numbers of clusters.
GraphTarget GraphTestTarget(std::vector<uint32_t> chip_clusters = {24, 24});

}  // namespace pto::engine::testing
