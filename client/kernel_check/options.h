#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"

namespace pto::kernel_check {

// A dimension: a number, or a letter that stands for the same random number everywhere.
struct Dimension {
  int64_t number = 0;
  std::string letter = {};  // empty: the number
};

// The values that elements of a tensor, or a scalar, may have.
struct ValueRange {
  double low = 0;
  double high = 0;
};

// What to check, and which inputs the kernel takes.
struct Options {
  std::string file;
  // As in RegisterKernelRequest.
  std::string entry = {};
  std::string signature = {};
  uint64_t seed = 1;
  // How many cases: each has its own shapes, views, values and number of blocks.
  uint32_t runs = 40;
  // Only this case.
  absl::optional<uint32_t> only = {};
  // By tensor. Tensors without an entry have one random shape together.
  std::map<std::string, std::vector<Dimension>> shapes = {};
  // By tensor or scalar. Default: -2 to 2.
  std::map<std::string, ValueRange> values = {};
  // To choose from. Empty: 1 to 16.
  std::vector<uint32_t> blocks = {};
  // Members of the task.
  uint32_t ranks = 1;
  // Only views without gaps.
  bool dense = false;
  // How much results may differ that depend on an order of additions, relative to the largest.
  double tolerance = 1e-5;
  // For one call of all blocks.
  absl::Duration timeout = absl::Seconds(10);
};

// Parses NAME=DIMENSIONS, such as `x=m,k` or `y=4,n`. USAGE if it is not of this form.
absl::Status AddShape(absl::string_view text, Options* options);
// Parses NAME=VALUE or NAME=LOW:HIGH.
absl::Status AddValues(absl::string_view text, Options* options);
// Parses numbers of blocks, such as `1,4,32`.
absl::Status AddBlocks(absl::string_view text, Options* options);

}  // namespace pto::kernel_check
