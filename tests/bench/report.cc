#include "tests/bench/report.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace pto::bench {
namespace {

std::string Quoted(absl::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      absl::StrAppendFormat(&out, "\\u%04x", c);
    } else {
      out += c;
    }
  }
  return out + '"';
}

// JSON has no NaN.
std::string Number(double value) {
  return std::isfinite(value) ? absl::StrFormat("%.6g", value) : "null";
}

// Four digits are readable, and large numbers stay integers.
std::string Readable(double value) {
  return std::fabs(value) >= 1000 ? absl::StrFormat("%.0f", value) : absl::StrFormat("%.4g", value);
}

}  // namespace

bool Line::ok() const {
  if (!target.has_value()) return true;
  return target->kind == Target::Kind::kAtMost ? ratio() <= target->ratio
                                               : ratio() >= target->ratio;
}

std::string ToJson(const Line& line) {
  std::string out = absl::StrCat("{\"name\":", Quoted(line.name), ",\"value\":", Number(line.value),
                                 ",\"unit\":", Quoted(line.unit));
  if (!line.against.empty()) {
    absl::StrAppend(&out, ",\"against\":", Quoted(line.against),
                    ",\"against_value\":", Number(line.against_value),
                    ",\"ratio\":", Number(line.ratio()));
  }
  if (line.target.has_value()) {
    absl::StrAppend(&out, ",\"target\":", Number(line.target->ratio),
                    ",\"ok\":", line.ok() ? "true" : "false");
  }
  return out + "}";
}

std::string TableHeader() {
  return absl::StrFormat("%-46s %12s %-9s %-24s %12s %7s %9s", "name", "value", "unit", "against",
                         "value", "ratio", "target");
}

std::string ToTableRow(const Line& line) {
  std::string out = absl::StrFormat("%-46s %12s %-9s", line.name, Readable(line.value), line.unit);
  if (line.against.empty()) return out;
  absl::StrAppendFormat(&out, " %-24s %12s %7.3f", line.against, Readable(line.against_value),
                        line.ratio());
  if (!line.target.has_value()) return out;
  const char* const sign = line.target->kind == Target::Kind::kAtMost ? "<=" : ">=";
  absl::StrAppendFormat(&out, " %9s %s", absl::StrFormat("%s %.4g", sign, line.target->ratio),
                        line.ok() ? "ok" : "MISSED");
  return out;
}

void Report::Add(const Line& line) {
  if (!line.ok()) ++missed_;
  if (format_ == Format::kJson) {
    Print(ToJson(line));
    return;
  }
  if (!has_header_) Print(TableHeader());
  has_header_ = true;
  Print(ToTableRow(line));
}

void Report::Print(absl::string_view text) {
  std::fprintf(out_, "%.*s\n", static_cast<int>(text.size()), text.data());
  std::fflush(out_);
}

}  // namespace pto::bench
