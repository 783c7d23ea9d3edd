#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "client/examples/scenarios/moe_routes.h"

// What a layer of experts must come to, found without the daemon. Numbers are bits of BF16.
namespace pto::scenarios {

inline constexpr int64_t kMoeWidth = 4096;  // elements of a token

// What becomes of an element that is weighed by some experts, whose answers are added up. There
// are few different weights, so that it is found once for each and for every element there is.
class MoeExperts {
 public:
  // By the element's bits. Valid as long as this object.
  const uint16_t* Answers(const std::vector<float>& weights);

 private:
  std::map<std::vector<float>, std::vector<uint16_t>> answers_;
};

// One repetition.
class MoeGolden {
 public:
  // Both must outlive it.
  MoeGolden(const std::vector<MoeRank>& routes, MoeExperts& experts, int repetition);

  // The tokens of a rank.
  absl::Span<const uint16_t> Input(uint32_t rank) const;

  // That a rank has got every row that leads to it, bit by bit and in order, and that its experts
  // have weighed them, within two units in the last place.
  absl::Status CheckReceived(uint32_t rank, const std::vector<uint16_t>& x,
                             const std::vector<uint16_t>& y) const;
  // That what has come back was added up, within two units in the last place.
  absl::Status CheckOutput(uint32_t rank, const std::vector<uint16_t>& y) const;

 private:
  using Row = absl::Span<const uint16_t>;

  Row TokenOf(uint32_t rank, int64_t token) const;

  const std::vector<MoeRank>& routes_;
  MoeExperts& experts_;
  std::vector<uint16_t> x_;  // of all ranks
};

}  // namespace pto::scenarios
