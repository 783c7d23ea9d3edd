#include "client/ptoctl/units.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace pto::ptoctl {
namespace {

// Three significant digits without trailing zeros.
std::string Short(double value) {
  std::string text = absl::StrFormat("%.*f", value < 9.995 ? 2 : value < 99.95 ? 1 : 0, value);
  if (text.find('.') == std::string::npos) return text;
  while (text.back() == '0') text.pop_back();
  if (text.back() == '.') text.pop_back();
  return text;
}

}  // namespace

std::string BytesText(uint64_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1000 && unit + 1 < std::size(kUnits)) {
    value /= 1024;
    ++unit;
  }
  return absl::StrCat(Short(value), " ", kUnits[unit]);
}

std::string DurationText(absl::Duration duration) {
  if (duration < absl::ZeroDuration()) return absl::StrCat("-", DurationText(-duration));
  if (duration == absl::InfiniteDuration()) return "forever";
  const double ns = absl::ToDoubleNanoseconds(duration);
  if (ns < 999.5) return absl::StrCat(Short(ns), " ns");
  if (ns < 999.5e3) return absl::StrCat(Short(ns / 1e3), " us");
  if (ns < 999.5e6) return absl::StrCat(Short(ns / 1e6), " ms");
  if (ns < 60e9) return absl::StrCat(Short(ns / 1e9), " s");
  const int64_t seconds = absl::ToInt64Seconds(duration);
  if (seconds < 3600) return absl::StrFormat("%dm %ds", seconds / 60, seconds % 60);
  if (seconds < 86400) return absl::StrFormat("%dh %dm", seconds / 3600, seconds / 60 % 60);
  return absl::StrFormat("%dd %dh", seconds / 86400, seconds / 3600 % 24);
}

}  // namespace pto::ptoctl
