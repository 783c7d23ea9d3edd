#include "proto/status/utf8.h"

namespace pto {
namespace {

bool IsContinuation(unsigned char byte) { return (byte & 0xC0) == 0x80; }

// Bytes of the character that `text` begins with; 0 when it begins with none. Refuses what the
// standard forbids: longer forms than needed, surrogates, and values beyond U+10FFFF.
size_t CharacterSize(absl::string_view text) {
  const auto at = [text](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = at(0);
  if (lead < 0x80) return 1;
  size_t size = 0;
  unsigned char lowest = 0x80;
  unsigned char highest = 0xBF;
  if (lead >= 0xC2 && lead <= 0xDF) {
    size = 2;
  } else if (lead >= 0xE0 && lead <= 0xEF) {
    size = 3;
    if (lead == 0xE0) lowest = 0xA0;
    if (lead == 0xED) highest = 0x9F;
  } else if (lead >= 0xF0 && lead <= 0xF4) {
    size = 4;
    if (lead == 0xF0) lowest = 0x90;
    if (lead == 0xF4) highest = 0x8F;
  } else {
    return 0;
  }
  if (text.size() < size || at(1) < lowest || at(1) > highest) return 0;
  for (size_t i = 2; i < size; ++i) {
    if (!IsContinuation(at(i))) return 0;
  }
  return size;
}

}  // namespace

std::string CutUtf8(absl::string_view text, size_t max_bytes) {
  constexpr absl::string_view kEllipsis = "...";
  std::string out;
  out.reserve(text.size() < max_bytes ? text.size() : max_bytes);
  // Where to cut, should the text turn out to be too long.
  size_t cut = 0;
  while (!text.empty()) {
    const size_t size = CharacterSize(text);
    const size_t step = size == 0 ? 1 : size;
    if (out.size() + step > max_bytes) {
      out.resize(cut);
      out.append(kEllipsis.data(), kEllipsis.size());
      return out;
    }
    if (size == 0) {
      out.push_back('?');
    } else {
      out.append(text.data(), size);
    }
    if (out.size() + kEllipsis.size() <= max_bytes) cut = out.size();
    text.remove_prefix(step);
  }
  return out;
}

}  // namespace pto
