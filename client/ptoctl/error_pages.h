#pragma once

#include <vector>

#include "absl/strings/string_view.h"

namespace pto::ptoctl {

// What deploy/docs/errors says of one reason.
struct ErrorSection {
  absl::string_view reason;
  // The page's name without `.md`.
  absl::string_view page;
  // Markdown, without the heading; no line breaks at its ends.
  absl::string_view text;
};

// All sections of all pages. The texts are part of the program. Thread-safe.
const std::vector<ErrorSection>& ErrorSections();

// The section on a reason, or nullptr.
const ErrorSection* FindErrorSection(absl::string_view reason);

// The example of a section as ptoctl prints it, such as `there is no kernel 'x'`: without the
// program's name and the reason. Empty when it has none.
absl::string_view ExampleOf(const ErrorSection& section);

}  // namespace pto::ptoctl
