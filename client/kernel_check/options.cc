#include "client/kernel_check/options.h"

#include <cctype>
#include <cmath>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "kernels/pto_kernel.h"
#include "runtime/base/error.h"

namespace pto::kernel_check {
namespace {

constexpr int64_t kMaxDimension = 1 << 20;
constexpr uint32_t kMaxBlocks = 256;

absl::Status Usage(absl::string_view option, absl::string_view text, absl::string_view expected) {
  return Error(reason::kUsage, absl::StrCat(option, " ", text, ": expected ", expected));
}

}  // namespace

absl::Status AddShape(absl::string_view text, Options* options) {
  const absl::Status usage =
      Usage("--shape", text, "NAME=DIMENSIONS, for example x=m,k or y=16,n; at most 5 dimensions");
  const std::pair<std::string, std::string> parts = absl::StrSplit(text, absl::MaxSplits('=', 1));
  if (parts.first.empty() || parts.second.empty()) return usage;
  std::vector<Dimension> dimensions;
  for (absl::string_view part : absl::StrSplit(parts.second, ',')) {
    Dimension dimension;
    if (absl::SimpleAtoi(part, &dimension.number)) {
      if (dimension.number < 0 || dimension.number > kMaxDimension) return usage;
    } else if (!part.empty() && std::isalpha(static_cast<unsigned char>(part[0])) != 0) {
      dimension.letter = std::string(part);
    } else {
      return usage;
    }
    dimensions.push_back(std::move(dimension));
  }
  if (dimensions.size() > PTO_MAX_DIMS) return usage;
  options->shapes[parts.first] = std::move(dimensions);
  return absl::OkStatus();
}

absl::Status AddValues(absl::string_view text, Options* options) {
  const absl::Status usage =
      Usage("--values", text, "NAME=VALUE or NAME=LOW:HIGH, for example count=3 or x=0:1");
  const std::pair<std::string, std::string> parts = absl::StrSplit(text, absl::MaxSplits('=', 1));
  const std::vector<absl::string_view> numbers = absl::StrSplit(parts.second, ':');
  ValueRange range;
  if (parts.first.empty() || numbers.size() > 2 || !absl::SimpleAtod(numbers[0], &range.low) ||
      !absl::SimpleAtod(numbers.back(), &range.high) || !std::isfinite(range.high - range.low) ||
      range.low > range.high) {
    return usage;
  }
  options->values[parts.first] = range;
  return absl::OkStatus();
}

absl::Status AddBlocks(absl::string_view text, Options* options) {
  for (absl::string_view part : absl::StrSplit(text, ',')) {
    uint32_t blocks = 0;
    if (!absl::SimpleAtoi(part, &blocks) || blocks < 1 || blocks > kMaxBlocks) {
      return Usage("--blocks", text,
                   absl::StrCat("numbers from 1 to ", kMaxBlocks, ", for example 1,4,16"));
    }
    options->blocks.push_back(blocks);
  }
  return absl::OkStatus();
}

}  // namespace pto::kernel_check
