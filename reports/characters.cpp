#include "reports/characters.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>

namespace lockstep::reports {

namespace {

// How many bytes the UTF-8 character at the front of `text` has; 0 if it is not one that XML 1.0
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

bool is_control(char byte) {
  return static_cast<unsigned char>(byte) < 0x20 || byte == 0x7f;
}

std::string spelled(char byte) {
  char text[8];
  std::snprintf(text, sizeof(text), "\\x%02x", static_cast<unsigned char>(byte));
  return text;
}

bool is_plain_to_shells(char byte) {
  constexpr std::string_view kMarks = "_./=,@%+:-";
  return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
         (byte >= '0' && byte <= '9') || kMarks.find(byte) != std::string_view::npos;
}

// "'...'", in which a shell interprets nothing but the closing quote.
std::string in_single_quotes(const std::string& text) {
  std::string out = "'";
  for (const char byte : text) out += byte == '\'' ? "'\\''" : std::string(1, byte);
  return out + "'";
}

// "$'...'", in which Bash interprets escapes.
std::string in_escaping_quotes(const std::string& text) {
  std::string out = "$'";
  for (const char byte : text) {
    if (byte == '\'' || byte == '\\')
      out += std::string("\\") + byte;
    else
      out += is_control(byte) || static_cast<unsigned char>(byte) >= 0x80 ? spelled(byte)
                                                                          : std::string(1, byte);
  }
  return out + "'";
}

}  // namespace

std::string legible(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const size_t size = character_size(text);
    if (size > 0) {
      out += text.substr(0, size);
    } else {
      out += spelled(text[0]);
    }
    text.remove_prefix(std::max<size_t>(size, 1));
  }
  return out;
}

bool is_one_line(std::string_view text) {
  return std::none_of(text.begin(), text.end(), is_control);
}

std::string one_line(std::string_view text) {
  std::string out;
  for (const char byte : text) out += is_control(byte) ? spelled(byte) : std::string(1, byte);
  return out;
}

std::string shell_word(const std::string& text) {
  if (!text.empty() && std::all_of(text.begin(), text.end(), is_plain_to_shells)) return text;
  return is_one_line(text) && legible(text) == text ? in_single_quotes(text)
                                                    : in_escaping_quotes(text);
}

}  // namespace lockstep::reports
