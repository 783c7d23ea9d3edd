#pragma once

#include <cstdint>

#include "absl/strings/string_view.h"
#include "kernels/pto_kernel.h"

namespace pto {

inline bool IsComparison(int64_t compare) { return compare >= PTO_EQ && compare <= PTO_LE; }

template <typename T>
bool Compares(pto_compare compare, T have, T want) {
  switch (compare) {
    case PTO_EQ:
      return have == want;
    case PTO_NE:
      return have != want;
    case PTO_GT:
      return have > want;
    case PTO_GE:
      return have >= want;
    case PTO_LT:
      return have < want;
    case PTO_LE:
      return have <= want;
  }
  return false;
}

// "==" and so on, for messages.
inline absl::string_view CompareText(pto_compare compare) {
  constexpr absl::string_view kTexts[] = {"?", "==", "!=", ">", ">=", "<", "<="};
  return IsComparison(compare) ? kTexts[compare] : kTexts[0];
}

}  // namespace pto
