#pragma once

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace pto {

// A copy of `text` of at most `max_bytes` that is valid UTF-8, as protobuf's string fields must
// be: each byte that belongs to no character becomes '?', and a text that is too long ends,
// between two characters, in "...". `max_bytes` is at least 3.
std::string CutUtf8(absl::string_view text, size_t max_bytes);

}  // namespace pto
