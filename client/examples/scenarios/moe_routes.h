#pragma once

#include <cstdint>
#include <vector>

// Which expert every token goes to, and what follows from it for each rank.
namespace pto::scenarios {

inline constexpr int64_t kMoeTokens = 128;  // of each rank
inline constexpr int64_t kMoeChoices = 6;   // experts of each token
inline constexpr int64_t kMoeExpertsPerRank = 16;
inline constexpr int64_t kMoeRoutes = kMoeTokens * kMoeChoices;

// The routes that begin on one rank, in the order in which they are sent: by destination.
struct MoeRank {
  std::vector<int32_t> token;     // of each route
  std::vector<float> weight;      // of each route
  std::vector<int32_t> place;     // of choice k of token t, at t * kMoeChoices + k
  std::vector<int64_t> sent;      // routes to each rank
  std::vector<int64_t> received;  // routes from each rank
  int64_t all_received = 0;
};

std::vector<MoeRank> MakeMoeRoutes(uint32_t ranks);

// Element i of a token, which is another one in each repetition, and the weight of one of its
// experts.
float MoeToken(uint32_t rank, int64_t token, int64_t i, int repetition);
float MoeWeight(uint32_t rank, int64_t token, int64_t choice);

}  // namespace pto::scenarios
