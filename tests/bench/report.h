#pragma once

#include <cstdio>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/optional.h"

namespace pto::bench {

// A bound on the ratio of a value to its reference.
struct Target {
  enum class Kind { kAtMost, kAtLeast };
  Kind kind = Kind::kAtMost;
  double ratio = 1;

  static Target AtMost(double ratio) { return {Kind::kAtMost, ratio}; }
  static Target AtLeast(double ratio) { return {Kind::kAtLeast, ratio}; }
};

// One measured number, with an optional reference and target.
struct Line {
  std::string name;
  double value = 0;
  std::string unit;
  // The reference. Empty: none.
  std::string against = {};
  double against_value = 0;
  // Only with `against`.
  absl::optional<Target> target = absl::nullopt;
  // If the ratio is not that of the two values, but for example a median of several.
  absl::optional<double> own_ratio = absl::nullopt;

  double ratio() const { return own_ratio.value_or(value / against_value); }
  // Whether it meets its target. A NaN ratio meets none.
  bool ok() const;
};

// One JSON object, without the newline.
std::string ToJson(const Line& line);
// One row below TableHeader.
std::string ToTableRow(const Line& line);
std::string TableHeader();

// Prints the lines of one benchmark as they come, as a table or as JSON, and knows whether all
// targets were met. Not thread-safe.
class Report {
 public:
  enum class Format { kTable, kJson };

  explicit Report(Format format, std::FILE* out = stdout) : format_(format), out_(out) {}
  Report(const Report&) = delete;
  Report& operator=(const Report&) = delete;

  void Add(const Line& line);

  // Whether every target so far was met.
  bool ok() const { return missed_ == 0; }
  int missed() const { return missed_; }

 private:
  void Print(absl::string_view text);

  const Format format_;
  std::FILE* const out_;
  bool has_header_ = false;
  int missed_ = 0;
};

}  // namespace pto::bench
