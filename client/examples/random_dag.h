#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace pto::examples {

// Elements of every tensor of the graph.
inline constexpr int64_t kRandomDagElements = 16;

// One task of a random graph. It writes its own tensor.
struct RandomStep {
  // `copy`, `add`, `sub` or `scale`.
  std::string kernel;
  uint32_t chip = 0;
  // Steps whose tensors it reads, all on the same chip; -1 means the chip's input.
  std::vector<int> inputs;
  // Earlier steps on any chip that must end first, in addition to those whose tensors it reads; the
  // daemon finds the latter itself.
  std::vector<int> after;
  // The factor of `scale`.
  double factor = 0;
};

// Returns the same graph for the same arguments, on every machine.
std::vector<RandomStep> MakeRandomDag(uint64_t seed, int steps, uint32_t chips);

// The graph as a job file that checks its own result.
std::string RandomDagJob(const std::vector<RandomStep>& steps, uint32_t chips);

}  // namespace pto::examples
