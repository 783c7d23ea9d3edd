#pragma once

#include <cstdint>
#include <ostream>

namespace pto::ptoctl {

// A line on a terminal that is written over as work goes on; nothing when it is not enabled.
class ProgressLine {
 public:
  // Does not own `err`.
  ProgressLine(std::ostream& err, bool enabled) : err_(err), enabled_(enabled) {}
  ~ProgressLine() { Clear(); }

  void Update(uint64_t done, uint64_t total);
  // Removes the line, so that something else can be written.
  void Clear();

 private:
  std::ostream& err_;
  const bool enabled_;
  bool shown_ = false;
};

}  // namespace pto::ptoctl
