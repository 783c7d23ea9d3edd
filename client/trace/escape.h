#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace pto::trace {

// Escapes text for a JSON string, also inside a <script>.
std::string JsonText(absl::string_view text);

// Escapes text for XML and HTML, between tags or quotes.
std::string XmlText(absl::string_view text);

}  // namespace pto::trace
