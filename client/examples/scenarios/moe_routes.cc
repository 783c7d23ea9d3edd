#include "client/examples/scenarios/moe_routes.h"

#include <algorithm>
#include <numeric>

namespace pto::scenarios {
namespace {

// Different for all choices of a token.
int64_t ExpertOf(uint32_t rank, int64_t token, int64_t choice, int64_t experts) {
  return (token * 7 + choice * 11 + rank * 3) % experts;
}

}  // namespace

float MoeToken(uint32_t rank, int64_t token, int64_t i, int repetition) {
  const int64_t mixed = token * 31 + i * 17 + rank * 101 + repetition * int64_t{57};
  return static_cast<float>(mixed % 509) / 64.0f - 4.0f;
}

float MoeWeight(uint32_t rank, int64_t token, int64_t choice) {
  return 0.125f * static_cast<float>(1 + (token + choice + rank) % 7);
}

std::vector<MoeRank> MakeMoeRoutes(uint32_t ranks) {
  const int64_t experts = kMoeExpertsPerRank * ranks;
  std::vector<MoeRank> all(ranks);
  for (uint32_t r = 0; r < ranks; ++r) {
    MoeRank& rank = all[r];
    rank.sent.assign(ranks, 0);
    rank.received.assign(ranks, 0);
  }
  for (uint32_t r = 0; r < ranks; ++r) {
    MoeRank& rank = all[r];
    std::vector<int64_t> routes(kMoeRoutes);
    std::iota(routes.begin(), routes.end(), 0);
    const auto expert = [&](int64_t route) {
      return ExpertOf(r, route / kMoeChoices, route % kMoeChoices, experts);
    };
    std::sort(routes.begin(), routes.end(), [&](int64_t a, int64_t b) {
      return expert(a) != expert(b) ? expert(a) < expert(b) : a < b;
    });
    rank.place.resize(kMoeRoutes);
    for (size_t i = 0; i < routes.size(); ++i) {
      const int64_t token = routes[i] / kMoeChoices;
      const auto to = static_cast<size_t>(expert(routes[i]) / kMoeExpertsPerRank);
      rank.token.push_back(static_cast<int32_t>(token));
      rank.weight.push_back(MoeWeight(r, token, routes[i] % kMoeChoices));
      rank.place[static_cast<size_t>(routes[i])] = static_cast<int32_t>(i);
      ++rank.sent[to];
      ++all[to].received[r];
      ++all[to].all_received;
    }
  }
  return all;
}

}  // namespace pto::scenarios
