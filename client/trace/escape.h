#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace pto::trace {

// Text as it stands between the quotes of a JSON string, safe inside of a <script> too.
std::string JsonText(absl::string_view text);

// Text as it stands in XML and HTML, between tags or quotes.
std::string XmlText(absl::string_view text);

}  // namespace pto::trace
