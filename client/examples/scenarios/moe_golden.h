#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "client/examples/scenarios/moe_routes.h"

// The expected results of a layer of experts, computed without the daemon. Numbers are bits of
// BF16.
namespace pto::scenarios {

inline constexpr int64_t kMoeWidth = 4096;  // elements of a token

// The result for an element that some experts weight and whose results are summed. There are few
// different weights, so the results are computed once for each weight and every possible element.
class MoeExperts {
 public:
  // By the element's bits. Valid as long as this object.
  const uint16_t* Answers(const std::vector<float>& weights);

 private:
  std::map<std::vector<float>, std::vector<uint16_t>> answers_;
};

// The expected results of one repetition.
class MoeGolden {
 public:
  // Both must outlive it.
  MoeGolden(const std::vector<MoeRank>& routes, MoeExperts& experts, int repetition);

  // The tokens of a rank.
  absl::Span<const uint16_t> Input(uint32_t rank) const;

  // Checks that a rank has received every row that leads to it, bit by bit and in order, and that
  // its experts have weighted them, within two units in the last place.
  absl::Status CheckReceived(uint32_t rank, const std::vector<uint16_t>& x,
                             const std::vector<uint16_t>& y) const;
  // Checks that the returned rows were summed, within two units in the last place.
  absl::Status CheckOutput(uint32_t rank, const std::vector<uint16_t>& y) const;

 private:
  using Row = absl::Span<const uint16_t>;

  Row TokenOf(uint32_t rank, int64_t token) const;

  const std::vector<MoeRank>& routes_;
  MoeExperts& experts_;
  std::vector<uint16_t> x_;  // of all ranks
};

}  // namespace pto::scenarios
