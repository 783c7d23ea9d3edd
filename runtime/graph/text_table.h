#pragma once

#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"
#include "runtime/graph/image.h"

namespace pto::engine {

// The names of a graph under construction, concatenated.
class TextTable {
 public:
  ImageText Add(absl::string_view text) {
    const ImageText range{static_cast<uint32_t>(text_.size()), static_cast<uint32_t>(text.size())};
    text_.insert(text_.end(), text.begin(), text.end());
    return range;
  }
  // Valid until the next Add.
  absl::string_view Get(ImageText range) const { return {text_.data() + range.begin, range.size}; }

  const std::vector<char>& all() const { return text_; }

 private:
  std::vector<char> text_;
};

}  // namespace pto::engine
