#include "daemon/config/units.h"

#include <limits>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace pto::daemon {
namespace {
// Each letter is 1,024 times the one before.
constexpr absl::string_view kUnits = "KMGT";
}  // namespace

bool ParseBytes(absl::string_view text, uint64_t* bytes) {
  const bool has_suffix = absl::ConsumeSuffix(&text, "iB");
  uint64_t unit = 1;
  const size_t power = text.empty() ? absl::string_view::npos : kUnits.find(text.back());
  if (power != absl::string_view::npos) {
    unit <<= 10 * (power + 1);
    text.remove_suffix(1);
  } else if (has_suffix) {
    return false;
  }
  uint64_t number = 0;
  // SimpleAtoi would also take blanks and a sign.
  if (text.find_first_not_of("0123456789") != absl::string_view::npos) return false;
  if (!absl::SimpleAtoi(text, &number)) return false;
  if (number > std::numeric_limits<uint64_t>::max() / unit) return false;
  *bytes = number * unit;
  return true;
}

std::string FormatBytes(uint64_t bytes) {
  size_t power = 0;
  while (bytes != 0 && bytes % 1024 == 0 && power < kUnits.size()) {
    bytes /= 1024;
    ++power;
  }
  return power == 0 ? absl::StrCat(bytes) : absl::StrCat(bytes, kUnits.substr(power - 1, 1));
}

}  // namespace pto::daemon
