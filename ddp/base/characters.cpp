#include "ddp/base/characters.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <string_view>

namespace lockstep {

namespace {

bool is_control(std::string_view character) {
  const auto first = static_cast<unsigned char>(character.front());
  if (character.size() == 1) return first < 0x20 || first == 0x7f;
  const bool is_of_the_second_set =
      first == 0xc2 && static_cast<unsigned char>(character[1]) < 0xa0;
  return is_of_the_second_set || character == "\u2028" || character == "\u2029";
}

// True of a character that displays the characters behind it in another order.
bool turns_direction(std::string_view character) {
  constexpr std::array<std::string_view, 12> kMarks = {"\u061c", "\u200e", "\u200f", "\u202a",
                                                       "\u202b", "\u202c", "\u202d", "\u202e",
                                                       "\u2066", "\u2067", "\u2068", "\u2069"};
  return std::find(kMarks.begin(), kMarks.end(), character) != kMarks.end();
}

}  // namespace

std::size_t length_of_character(const std::string& text, std::size_t place) {
  const auto code = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = code(place);
  if (first < 0x80) return 1;
  const std::size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || place + length > text.size()) return 0;
  for (std::size_t i = 1; i < length; ++i)
    if ((code(place + i) & 0xc0) != 0x80) return 0;
  // Overlong, half of a surrogate pair, or beyond the last character.
  const unsigned char second = code(place + 1);
  const bool is_none = (first == 0xe0 && second < 0xa0) || (first == 0xed && second > 0x9f) ||
                       (first == 0xf0 && second < 0x90) || (first == 0xf4 && second > 0x8f);
  return is_none ? 0 : length;
}

std::string printable(const std::string& text) {
  std::string out;
  for (std::size_t place = 0; place < text.size();) {
    const std::size_t length = length_of_character(text, place);
    const std::string bytes = text.substr(place, std::max<std::size_t>(length, 1));
    place += bytes.size();
    if (length > 0 && !is_control(bytes) && !turns_direction(bytes)) {
      out += bytes;
      continue;
    }
    for (const char byte : bytes) {
      char spelled[8];
      std::snprintf(spelled, sizeof spelled, "\\x%02x", static_cast<unsigned char>(byte));
      out += spelled;
    }
  }
  return out;
}

}  // namespace lockstep
