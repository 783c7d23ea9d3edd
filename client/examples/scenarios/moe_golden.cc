#include "client/examples/scenarios/moe_golden.h"

#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "client/examples/scenarios/bfloat16.h"
#include "client/examples/scenarios/scene.h"
#include "runtime/base/status_macros.h"

namespace pto::scenarios {
namespace {

constexpr auto kWidth = static_cast<size_t>(kMoeWidth);

// Two units in the last place. Zero must be exact; nothing here is a sum of numbers of both signs,
// so there is no cancellation.
constexpr Tolerance kTwoUnits = {.absolute = 0, .relative = 1.0 / 64};

bool Same(absl::Span<const uint16_t> a, absl::Span<const uint16_t> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof a[0]) == 0;
}

absl::Status ExpectNear(const std::string& what, absl::Span<const uint16_t> have,
                        absl::Span<const uint16_t> want) {
  if (Same(have, want)) return absl::OkStatus();
  std::vector<float> numbers;
  for (const uint16_t bits : have) numbers.push_back(FromBfloat16(bits));
  return Expect(what, numbers, [&](size_t i) { return FromBfloat16(want[i]); }, kTwoUnits);
}

// The result of the experts for a token.
void Answer(absl::Span<const uint16_t> token, const uint16_t* answers, std::vector<uint16_t>& to) {
  const uint16_t* const from = token.data();
  uint16_t* const out = to.data();
  for (size_t i = 0; i < kWidth; ++i) out[i] = answers[from[i]];
}

}  // namespace

const uint16_t* MoeExperts::Answers(const std::vector<float>& weights) {
  std::vector<uint16_t>& answers = answers_[weights];
  if (!answers.empty()) return answers.data();
  for (uint32_t bits = 0; bits <= 0xffff; ++bits) {
    float sum = 0;
    for (const float weight : weights) {
      const float x = FromBfloat16(static_cast<uint16_t>(bits));
      sum += FromBfloat16(ToBfloat16(x * weight));
    }
    answers.push_back(ToBfloat16(sum));
  }
  return answers.data();
}

MoeGolden::MoeGolden(const std::vector<MoeRank>& routes, MoeExperts& experts, int repetition)
    : routes_(routes), experts_(experts) {
  x_.reserve(routes.size() * kMoeTokens * kWidth);
  for (uint32_t rank = 0; rank < routes.size(); ++rank) {
    for (int64_t token = 0; token < kMoeTokens; ++token) {
      for (int64_t i = 0; i < kMoeWidth; ++i) {
        x_.push_back(ToBfloat16(MoeToken(rank, token, i, repetition)));
      }
    }
  }
}

MoeGolden::Row MoeGolden::TokenOf(uint32_t rank, int64_t token) const {
  const auto row = static_cast<size_t>(rank * kMoeTokens + token);
  return Row(x_).subspan(row * kWidth, kWidth);
}

absl::Span<const uint16_t> MoeGolden::Input(uint32_t rank) const {
  return Row(x_).subspan(rank * kMoeTokens * kWidth, kMoeTokens * kWidth);
}

absl::Status MoeGolden::CheckReceived(uint32_t rank, const std::vector<uint16_t>& x,
                                      const std::vector<uint16_t>& y) const {
  size_t at = 0;
  std::vector<uint16_t> weighed(kWidth);
  for (uint32_t from = 0; from < routes_.size(); ++from) {
    const MoeRank& sender = routes_[from];
    // Its routes are sorted by destination.
    int64_t route = 0;
    for (uint32_t before = 0; before < rank; ++before) route += sender.sent[before];
    for (int64_t end = route + sender.sent[rank]; route < end; ++route, at += kWidth) {
      const Row token = TokenOf(from, sender.token[static_cast<size_t>(route)]);
      const std::string what =
          absl::StrCat(" of rank ", rank, ", route ", route, " of rank ", from);
      if (!Same(Row(x).subspan(at, kWidth), token)) {
        return absl::DataLossError(absl::StrCat("recv-x", what, " is not the token that was sent"));
      }
      Answer(token, experts_.Answers({sender.weight[static_cast<size_t>(route)]}), weighed);
      PTO_RETURN_IF_ERROR(
          ExpectNear(absl::StrCat("recv-y", what), Row(y).subspan(at, kWidth), weighed));
    }
  }
  return absl::OkStatus();
}

absl::Status MoeGolden::CheckOutput(uint32_t rank, const std::vector<uint16_t>& y) const {
  std::vector<uint16_t> sums(kWidth);
  for (int64_t token = 0; token < kMoeTokens; ++token) {
    std::vector<float> weights;
    for (int64_t k = 0; k < kMoeChoices; ++k) weights.push_back(MoeWeight(rank, token, k));
    Answer(TokenOf(rank, token), experts_.Answers(weights), sums);
    PTO_RETURN_IF_ERROR(ExpectNear(absl::StrCat("y of rank ", rank, ", token ", token),
                                   Row(y).subspan(static_cast<size_t>(token) * kWidth, kWidth),
                                   sums));
  }
  return absl::OkStatus();
}

}  // namespace pto::scenarios
