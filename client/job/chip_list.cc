#include "client/job/chip_list.h"

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "runtime/base/error.h"

namespace pto::job {
namespace {

// No machine has more chips; a list such as 0-4000000000 is an error.
constexpr uint32_t kMaxChips = 4096;

absl::Status Refuse(absl::string_view text, absl::string_view what) {
  return Error(reason::kFieldInvalid, absl::StrCat("chip list '", text, "': ", what))
      .Hint("use numbers and ranges, for example 0-3,6");
}

bool ParseChip(absl::string_view text, uint32_t* chip) {
  // SimpleAtoi accepts signs and spaces, which are invalid here.
  for (char c : text) {
    if (!absl::ascii_isdigit(static_cast<unsigned char>(c))) return false;
  }
  return absl::SimpleAtoi(text, chip) && *chip < kMaxChips;
}

}  // namespace

absl::StatusOr<std::vector<uint32_t>> ParseChipList(absl::string_view text) {
  std::vector<uint32_t> chips;
  for (absl::string_view part : absl::StrSplit(text, ',')) {
    part = absl::StripAsciiWhitespace(part);
    const std::pair<absl::string_view, absl::string_view> ends =
        absl::StrSplit(part, absl::MaxSplits('-', 1));
    uint32_t first = 0;
    if (!ParseChip(ends.first, &first)) {
      return Refuse(text, absl::StrCat("expected a chip from 0 to ", kMaxChips - 1, ", got '",
                                       ends.first, "'"));
    }
    uint32_t last = first;
    if (absl::StrContains(part, '-') && !ParseChip(ends.second, &last)) {
      return Refuse(
          text, absl::StrCat("expected a chip after '", ends.first, "-', got '", ends.second, "'"));
    }
    if (last < first) {
      return Refuse(text,
                    absl::StrCat("the range ", part, " is descending; use ", last, "-", first));
    }
    for (uint32_t chip = first; chip <= last; ++chip) chips.push_back(chip);
    if (chips.size() > kMaxChips) {
      return Refuse(text, absl::StrCat("more than ", kMaxChips, " chips"));
    }
  }
  return chips;
}

std::string FormatChipList(absl::Span<const uint32_t> chips) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin < chips.size();) {
    size_t end = begin + 1;
    while (end < chips.size() && chips[end] == chips[end - 1] + 1) ++end;
    parts.push_back(end - begin == 1 ? absl::StrCat(chips[begin])
                                     : absl::StrCat(chips[begin], "-", chips[end - 1]));
    begin = end;
  }
  return absl::StrJoin(parts, ",");
}

}  // namespace pto::job
