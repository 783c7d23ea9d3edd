#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "pto/v1/node.pb.h"
#include "pto/v1/run.pb.h"
#include "pto/v1/session.pb.h"

namespace pto::ptoctl {

// The data of one `ptoctl top` screen.
struct TopSample {
  absl::Time time;
  v1::Node node;
  std::vector<v1::Chip> chips;
  std::vector<v1::Session> sessions;
  std::vector<v1::Run> runs;  // active runs, newest first
  // For each chip, since the previous sample: the fraction of busy cores and the number of tasks
  // ended per second.
  std::vector<double> busy;
  std::vector<double> tasks_per_second;
};

// Averages the load of the chips over several samples.
class BusyMeter {
 public:
  // Adds one sample of all chips.
  void Add(const std::vector<v1::Chip>& chips);
  // Returns the mean of all samples for each chip, and resets the meter.
  std::vector<double> Take();

 private:
  std::vector<double> sums_;
  size_t samples_ = 0;
};

// Formats the sample as text, with at most `max_rows` sessions and `max_rows` runs.
std::string FormatTop(const TopSample& sample, size_t max_rows);

}  // namespace pto::ptoctl
