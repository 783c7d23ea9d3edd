#pragma once

#include <cstdint>
#include <ostream>
#include <string>
#include <utility>

namespace pto::ptoctl {

// A progress line on a terminal that each update overwrites. Prints nothing if not enabled.
class ProgressLine {
 public:
  // Does not own `err`. `what` follows the numbers.
  ProgressLine(std::ostream& err, bool enabled, std::string what = "tasks done")
      : err_(err), enabled_(enabled), what_(std::move(what)) {}
  ~ProgressLine() { Clear(); }

  void Update(uint64_t done, uint64_t total);
  // Erases the line, so that other output can be written.
  void Clear();

 private:
  std::ostream& err_;
  const bool enabled_;
  const std::string what_;
  bool shown_ = false;
};

}  // namespace pto::ptoctl
