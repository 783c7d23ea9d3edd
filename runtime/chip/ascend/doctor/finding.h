#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace pto::ascend {

// One thing that the doctor has looked at.
struct Finding {
  enum class State { kOk, kNote, kProblem };

  std::string check;  // "device nodes"
  State state = State::kOk;
  std::string found;
  std::string advice;  // what to do; empty: nothing
};

absl::string_view NameOf(Finding::State state);

// For people: a line for each finding, and the advice below it.
std::string ToTable(absl::Span<const Finding> findings);
// A JSON array of objects with check, state, found and advice.
std::string ToJson(absl::Span<const Finding> findings);

// Findings of another process, one a line; what is not one is left out.
std::string ToLines(absl::Span<const Finding> findings);
std::vector<Finding> FromLines(absl::string_view lines);

}  // namespace pto::ascend
