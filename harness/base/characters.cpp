#include "harness/base/characters.h"

#include "harness/base/utf8.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>

namespace lockstep {

namespace {

// True of a character that a terminal acts on, or that ends a line somewhere.
bool is_control(uint32_t code) {
  return code < 0x20 || (code >= 0x7f && code < 0xa0) || code == 0x2028 || code == 0x2029;
}

// True of a character that displays the characters behind it in another order.
bool turns_direction(uint32_t code) {
  return code == 0x61c || code == 0x200e || code == 0x200f || (code >= 0x202a && code <= 0x202e) ||
         (code >= 0x2066 && code <= 0x2069);
}

// True of a character that a reader does not see: Unicode's characters that a program without a
// glyph for them ignores, such as a space without width, a byte-order mark and the tags, which
// spell a hidden ASCII text. The variation selectors of emoji (U+FE0F) stay.
bool is_invisible(uint32_t code) {
  return code == 0xad || code == 0x34f || (code >= 0x115f && code <= 0x1160) ||
         (code >= 0x17b4 && code <= 0x17b5) || (code >= 0x180b && code <= 0x180f) ||
         (code >= 0x200b && code <= 0x200d) || (code >= 0x2060 && code <= 0x206f) ||
         code == 0x3164 || code == 0xfeff || code == 0xffa0 || (code >= 0xfff0 && code <= 0xfff8) ||
         (code >= 0x1bca0 && code <= 0x1bca3) || (code >= 0x1d173 && code <= 0x1d17a) ||
         (code >= 0xe0000 && code <= 0xe0fff);
}

bool is_of_a_line(uint32_t code) {
  const bool is_legal_in_xml = code != 0xfffe && code != 0xffff;
  return is_legal_in_xml && !is_control(code) && !turns_direction(code) && !is_invisible(code);
}

std::string spelled(char byte) {
  char text[8];
  std::snprintf(text, sizeof(text), "\\x%02x", static_cast<unsigned char>(byte));
  return text;
}

// `text` with the bytes of each character that `keep` refuses, and those that are none, spelled.
std::string spelled_unless(std::string_view text, bool (*keep)(uint32_t)) {
  const auto is_plain = [](char byte) { return byte >= 0x20 && byte < 0x7f; };
  if (std::all_of(text.begin(), text.end(), is_plain)) return std::string(text);
  std::string out;
  while (!text.empty()) {
    const auto [size, code] = first_character(text);
    const auto bytes = text.substr(0, std::max<size_t>(size, 1));
    if (size > 0 && keep(code))
      out += bytes;
    else
      for (const char byte : bytes) out += spelled(byte);
    text.remove_prefix(bytes.size());
  }
  return out;
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
      out += byte >= 0x20 && byte < 0x7f ? std::string(1, byte) : spelled(byte);
  }
  return out + "'";
}

}  // namespace

std::string legible(std::string_view text) {
  return spelled_unless(
      text, [](uint32_t code) { return is_of_a_line(code) || code == '\n' || code == '\t'; });
}

std::string one_line(std::string_view text) {
  return spelled_unless(text, is_of_a_line);
}

bool is_one_line(std::string_view text) {
  return one_line(text) == text;
}

std::string shell_word(const std::string& text) {
  if (!text.empty() && std::all_of(text.begin(), text.end(), is_plain_to_shells)) return text;
  return is_one_line(text) ? in_single_quotes(text) : in_escaping_quotes(text);
}

}  // namespace lockstep
