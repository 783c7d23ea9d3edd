#pragma once

#include <vector>

#include "absl/strings/string_view.h"

namespace pto::ptoctl {

// The section of deploy/docs/errors about one reason.
struct ErrorSection {
  absl::string_view reason;
  // File name of the page, without `.md`.
  absl::string_view page;
  // Markdown without the heading and without leading or trailing line breaks.
  absl::string_view text;
};

// All sections of all pages. The texts are compiled into the program. Thread-safe.
const std::vector<ErrorSection>& ErrorSections();

// The section about a reason, or nullptr.
const ErrorSection* FindErrorSection(absl::string_view reason);

// The example message of a section, for instance `there is no kernel 'x'`, without the program name
// and the reason. Empty if the section has no example.
absl::string_view ExampleOf(const ErrorSection& section);

}  // namespace pto::ptoctl
