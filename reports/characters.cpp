#include "reports/characters.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>

namespace lockstep::reports {

namespace {

// How many bytes the UTF-8 character at the front of `text` has; 0 if there is none that XML 1.0
// may hold.
size_t character_size(std::string_view text) {
  const auto byte = [&](size_t at) { return static_cast<unsigned char>(text[at]); };
  if (byte(0) < 0x80) return byte(0) >= 0x20 || byte(0) == '\n' || byte(0) == '\t' ? 1 : 0;
  const size_t size = byte(0) >= 0xf0 ? 4 : byte(0) >= 0xe0 ? 3 : 2;
  if (byte(0) < 0xc2 || byte(0) > 0xf4 || size > text.size()) return 0;
  uint32_t code = byte(0) & (0xffu >> (size + 1));
  for (size_t at = 1; at < size; ++at) {
    if ((byte(at) & 0xc0) != 0x80) return 0;
    code = code << 6 | (byte(at) & 0x3f);
  }
  const uint32_t least = size == 2 ? 0x80 : size == 3 ? 0x800 : 0x10000;
  const bool surrogate = code >= 0xd800 && code < 0xe000;
  return code < least || code > 0x10ffff || surrogate || code == 0xfffe || code == 0xffff ? 0
                                                                                          : size;
}

}  // namespace

std::string legible(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const size_t size = character_size(text);
    if (size > 0) {
      out += text.substr(0, size);
    } else {
      char spelled[8];
      std::snprintf(spelled, sizeof(spelled), "\\x%02x", static_cast<unsigned char>(text[0]));
      out += spelled;
    }
    text.remove_prefix(std::max<size_t>(size, 1));
  }
  return out;
}

}  // namespace lockstep::reports
