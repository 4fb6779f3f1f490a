#include "reports/style.h"

#include "harness/base/characters.h"
#include "harness/base/text.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>

namespace lockstep::reports {

namespace {

constexpr std::array<std::pair<std::string_view, std::string_view>, 14> kPlain{{
    {"✗", "x"},
    {"✓", "v"},
    {"…", "..."},
    {"–", "-"},
    {"◄", "<-"},
    {"·", "-"},
    {"×", "x"},
    {"≥", ">="},
    {"≤", "<="},
    {"█", "#"},
    {"▒", "."},
    {"●", "o"},
    {"→", "->"},
    {"│", "|"},
}};

bool continues(char byte) {
  return (static_cast<unsigned char>(byte) & 0xc0) == 0x80;
}

// The ASCII replacement for the character at `at`, and the character's size in bytes.
std::pair<std::string_view, size_t> plain(std::string_view text, size_t at) {
  for (const auto& [character, word] : kPlain)
    if (text.substr(at).starts_with(character)) return {word, character.size()};
  size_t size = 1;
  while (at + size < text.size() && continues(text[at + size])) ++size;
  return {"?", size};
}

}  // namespace

std::string coloured(const std::string& text, Colour colour, const Style& style) {
  if (!style.colour) return text;
  const char* code = colour == Colour::green     ? "32"
                     : colour == Colour::red     ? "31"
                     : colour == Colour::yellow  ? "33"
                     : colour == Colour::blue    ? "34"
                     : colour == Colour::magenta ? "35"
                     : colour == Colour::cyan    ? "36"
                                                 : "1";
  return std::string("\033[") + code + "m" + text + "\033[0m";
}

std::string shown(const std::string& text, const Style& style) {
  const auto seen = legible(text);
  if (style.unicode) return seen;
  std::string out;
  for (size_t at = 0; at < seen.size();) {
    const bool is_ascii = static_cast<unsigned char>(seen[at]) < 0x80;
    const auto [word, size] =
        is_ascii ? std::pair(std::string_view(seen).substr(at, 1), size_t{1}) : plain(seen, at);
    out += word;
    at += size;
  }
  return out;
}

size_t width(std::string_view text) {
  size_t columns = 0;
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '\033') {
      at = std::min(text.find('m', at), text.size());
    } else if (!continues(text[at])) {
      ++columns;
    }
  }
  return columns;
}

std::string padded(const std::string& text, size_t columns) {
  const size_t has = width(text);
  return text + std::string(columns > has ? columns - has : 0, ' ');
}

std::string right_aligned(const std::string& text, size_t columns) {
  const size_t has = width(text);
  return std::string(columns > has ? columns - has : 0, ' ') + text;
}

std::string seconds(std::chrono::milliseconds time) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.1f", static_cast<double>(time.count()) / 1000);
  return text;
}

std::string seed_text(uint64_t seed) {
  char text[32];
  std::snprintf(text, sizeof(text), "0x%llx", static_cast<unsigned long long>(seed));
  return text;
}

}  // namespace lockstep::reports
