#include "words.h"

#include <cctype>

namespace {

// The character at `at` with its bytes, which are one where they are no UTF-8.
struct Character {
  char32_t code;
  std::size_t bytes;
};

Character character_at(const std::string& text, std::size_t at) {
  const auto first = static_cast<unsigned char>(text[at]);
  const std::size_t bytes = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : first >= 0xC0 ? 2 : 1;
  if (bytes == 1 || at + bytes > text.size()) return {first, 1};
  char32_t code = first & (0xFFU >> (bytes + 1));
  for (std::size_t i = 1; i < bytes; ++i)
    code = (code << 6) | (static_cast<unsigned char>(text[at + i]) & 0x3FU);
  return {code, bytes};
}

bool is_in(char32_t code, char32_t first, char32_t last) {
  return code >= first && code <= last;
}

// The ideographs of Chinese, as BERT's tokenizer has them.
bool is_chinese(char32_t code) {
  return is_in(code, 0x4E00, 0x9FFF) || is_in(code, 0x3400, 0x4DBF) ||
         is_in(code, 0x20000, 0x2CEAF) || is_in(code, 0xF900, 0xFAFF) ||
         is_in(code, 0x2F800, 0x2FA1F);
}

// True of separators in ASCII, in several languages (U+2000), in Chinese (U+3000), and of
// full-width ones (U+FF00).
bool separates(char32_t code) {
  if (code < 0x80) return std::isalnum(static_cast<int>(code)) == 0;
  return is_in(code, 0x2000, 0x206F) || is_in(code, 0x3000, 0x303F) ||
         is_in(code, 0xFF00, 0xFF0F) || is_in(code, 0xFF1A, 0xFF20) ||
         is_in(code, 0xFF3B, 0xFF40) || is_in(code, 0xFF5B, 0xFF65);
}

}  // namespace

std::vector<std::string> words_of(const std::string& review) {
  std::vector<std::string> words;
  bool continues = false;  // whether the next letter belongs to the last word
  for (std::size_t at = 0; at < review.size();) {
    const auto [code, bytes] = character_at(review, at);
    const bool is_word = is_chinese(code);
    if (!separates(code)) {
      if (is_word || !continues) words.emplace_back();
      words.back() += bytes == 1
                          ? std::string(1, static_cast<char>(std::tolower(static_cast<int>(code))))
                          : review.substr(at, bytes);
    }
    continues = !is_word && !separates(code);
    at += bytes;
  }
  return words;
}

// FNV-1a, since std::hash promises nothing.
std::int64_t bucket_of(const std::string& word) {
  std::uint64_t hash = 14695981039346656037ULL;
  for (const char c : word) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  return static_cast<std::int64_t>(hash % static_cast<std::uint64_t>(kBuckets)) + 1;
}
