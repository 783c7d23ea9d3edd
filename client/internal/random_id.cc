#include "client/internal/random_id.h"

#include <random>

namespace pto::internal {

std::string RandomId(absl::string_view prefix) {
  constexpr absl::string_view kLetters = "abcdefghijklmnopqrstuvwxyz234567";
  constexpr int kLength = 16;
  std::random_device random;
  std::string id(prefix);
  uint64_t bits = 0;
  for (int i = 0; i < kLength; ++i) {
    // Six characters of five bits each come from one word.
    if (i % 6 == 0) bits = random();
    id.push_back(kLetters[bits % kLetters.size()]);
    bits /= kLetters.size();
  }
  return id;
}

}  // namespace pto::internal
