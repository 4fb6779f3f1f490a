#include "cli/commands/words.h"

#include "harness/base/text.h"
#include "pages.h"

#include <algorithm>
#include <cctype>
#include <regex>

namespace lockstep::cli {

namespace {

std::string without_marks(const std::string& markdown) {
  static const std::regex link(R"(\[([^\]]*)\]\([^)]*\))"), mark("[`*]");
  return std::regex_replace(std::regex_replace(markdown, link, "$1"), mark, "");
}

bool is_word(const std::string& one, const std::string& other) {
  return std::ranges::equal(one, other, [](unsigned char a, unsigned char b) {
    return std::tolower(a) == std::tolower(b);
  });
}

// The rows of a page's tables of two columns.
std::vector<Word> words_of(const std::string& page) {
  const std::regex row_of_two(R"(\| (.+?) \| (.+) \|)");
  std::vector<Word> all;
  for (const auto& line : split(page, '\n')) {
    std::smatch row;
    if (std::regex_match(line, row, row_of_two) && row[1] != "word" && row[1] != "pattern")
      all.push_back({without_marks(row[1]), without_marks(row[2])});
  }
  return all;
}

}  // namespace

const std::vector<Word>& glossary() {
  static const auto all = words_of(kGlossary);
  return all;
}

const std::vector<Word>& patterns() {
  static const auto all = words_of(kPatterns);
  return all;
}

const Word* find_word(const std::string& word, const std::vector<Word>& words) {
  for (const auto& entry : words) {
    if (is_word(entry.word, word)) return &entry;
    for (const auto& one : split(entry.word, ','))
      if (is_word(one.substr(std::min(one.find_first_not_of(' '), one.size())), word))
        return &entry;
  }
  return nullptr;
}

}  // namespace lockstep::cli
