#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"

// For tests: what collectives should do, as plain loops over single elements that share no code
// with the implementation.
namespace pto::kernels::collectives {

// Bits of elements, each in the lower bits of a word.
using Elements = std::vector<uint64_t>;

Elements LoadElements(uint32_t dtype, const std::byte* from, int64_t count);
void StoreElements(uint32_t dtype, const Elements& elements, std::byte* to);

// The element as a number, for tolerances and to create elements. Integers may lose bits.
double ToDouble(uint32_t dtype, uint64_t bits);
uint64_t FromDouble(uint32_t dtype, double value);
bool IsFloating(uint32_t dtype);
// Distance of 1 to the next number of a floating type.
double EpsilonOf(uint32_t dtype);

// The reduction of the ranks' elements, in rank order.
uint64_t PlainReduce(uint32_t dtype, int64_t op, const std::vector<uint64_t>& elements);

struct PlainRank {
  Elements in;
  Elements out;
  std::vector<int64_t> send_counts;
  std::vector<int64_t> recv_counts;
};

// Does what the kernel of that name should do: sets the outputs of `ranks`.
void PlainCollective(absl::string_view kernel, uint32_t dtype, const std::vector<int64_t>& scalars,
                     std::vector<PlainRank>* ranks);

}  // namespace pto::kernels::collectives
