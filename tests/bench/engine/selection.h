#pragma once

#include <initializer_list>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "tests/bench/engine/task_graph.h"

namespace pto::bench {

// The selected part of the benchmark, and its shapes.
class Selection {
 public:
  // `PEER`, `PEER/SHAPE`, or empty for everything. The README lists the peers.
  static absl::StatusOr<Selection> Parse(absl::string_view only);

  bool wants(Shape other) const { return !shape_.has_value() || *shape_ == other; }
  // Whether one of these is selected; true if everything is.
  bool any_of(std::initializer_list<absl::string_view> parts) const;
  // Whether single-threaded and large cases are selected, too.
  bool all_cases() const { return any_of({"engine", "bare", "onetbb"}); }

 private:
  std::string part_ = "all";
  absl::optional<Shape> shape_;
};

}  // namespace pto::bench
