#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "pto/v1/node.pb.h"
#include "pto/v1/run.pb.h"
#include "pto/v1/session.pb.h"

namespace pto::ptoctl {

// What `ptoctl top` shows at one moment.
struct TopSample {
  absl::Time time;
  v1::Node node;
  std::vector<v1::Chip> chips;
  std::vector<v1::Session> sessions;
  std::vector<v1::Run> runs;  // that are active, newest first
  // Of each chip, since the sample before: part of its cores that were busy, and tasks that ended
  // in a second.
  std::vector<double> busy;
  std::vector<double> tasks_per_second;
};

// Adds up how busy chips are over several looks.
class BusyMeter {
 public:
  // One look, of all chips.
  void Add(const std::vector<v1::Chip>& chips);
  // Mean over all looks, in the order of the chips; begins anew.
  std::vector<double> Take();

 private:
  std::vector<double> sums_;
  size_t looks_ = 0;
};

// As text, with at most so many sessions and runs.
std::string FormatTop(const TopSample& sample, size_t max_rows);

}  // namespace pto::ptoctl
