#include "tests/bench/engine/selection.h"

#include <algorithm>
#include <array>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace pto::bench {
namespace {

constexpr std::array<absl::string_view, 8> kParts = {"all",    "engine", "bare",     "onetbb",
                                                     "openmp", "starpu", "recorded", "relaunch"};

}  // namespace

absl::StatusOr<Selection> Selection::Parse(absl::string_view only) {
  Selection selection;
  if (only.empty()) return selection;
  const std::vector<std::string> words = absl::StrSplit(only, absl::MaxSplits('/', 1));
  selection.part_ = words[0];
  if (std::find(kParts.begin(), kParts.end(), words[0]) == kParts.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat("there is no '", words[0], "', only ", absl::StrJoin(kParts, ", ")));
  }
  if (words.size() == 1) return selection;
  selection.shape_ = ParseShape(words[1]);
  if (!selection.shape_.has_value()) {
    return absl::InvalidArgumentError(absl::StrCat("there is no shape '", words[1], "'"));
  }
  return selection;
}

bool Selection::any_of(std::initializer_list<absl::string_view> parts) const {
  return part_ == "all" || std::find(parts.begin(), parts.end(), part_) != parts.end();
}

}  // namespace pto::bench
