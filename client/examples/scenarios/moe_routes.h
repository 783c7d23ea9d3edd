#pragma once

#include <cstdint>
#include <vector>

// The expert of every token, and the resulting routes of each rank.
namespace pto::scenarios {

inline constexpr int64_t kMoeTokens = 128;  // of each rank
inline constexpr int64_t kMoeChoices = 6;   // experts of each token
inline constexpr int64_t kMoeExpertsPerRank = 16;
inline constexpr int64_t kMoeRoutes = kMoeTokens * kMoeChoices;

// The routes that start on one rank, in the order of sending: by destination.
struct MoeRank {
  std::vector<int32_t> token;     // of each route
  std::vector<float> weight;      // of each route
  std::vector<int32_t> place;     // position of choice k of token t, at t * kMoeChoices + k
  std::vector<int64_t> sent;      // routes to each rank
  std::vector<int64_t> received;  // routes from each rank
  int64_t all_received = 0;
};

std::vector<MoeRank> MakeMoeRoutes(uint32_t ranks);

// Element i of a token, which differs in each repetition, and the weight of one of its experts.
float MoeToken(uint32_t rank, int64_t token, int64_t i, int repetition);
float MoeWeight(uint32_t rank, int64_t token, int64_t choice);

}  // namespace pto::scenarios
