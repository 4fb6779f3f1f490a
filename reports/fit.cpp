#include "reports/fit.h"

#include "harness/base/text.h"

#include <algorithm>
#include <utility>

namespace lockstep::reports {

namespace {

using Letters = std::vector<std::string>;  // each takes one column of a terminal

Letters letters_of(const std::string& line) {
  Letters letters;
  for (const char byte : line) {
    const bool continues = (static_cast<unsigned char>(byte) & 0xc0) == 0x80;
    if (continues && !letters.empty())
      letters.back() += byte;
    else
      letters.emplace_back(1, byte);
  }
  return letters;
}

size_t indent_of(const std::string& line) {
  return std::min(line.find_first_not_of(' '), line.size());
}

// After the indentation; at least one cell for a line that is not empty.
size_t cell_count(const std::string& line) {
  size_t cells = 1;
  for (size_t at = indent_of(line); (at = line.find("  ", at)) != std::string::npos; ++cells) {
    at = line.find_first_not_of(' ', at);
    if (at == std::string::npos) break;
  }
  return cells;
}

struct Manner {
  size_t begin = 0;    // of the first word that can be wrapped
  std::string prefix;  // of the lines below the first
  std::string end;     // of a line that continues below
};

// How a line continues: under its quotation, after its label, or indented.
Manner manner_of(const std::string& line, size_t columns) {
  const size_t indent = indent_of(line);
  const std::string blanks(indent, ' ');
  if (line.substr(indent).starts_with("| ")) return {indent + 2, blanks + "|   ", ""};
  const auto gap = line.find("  ", indent);
  const auto second = gap == std::string::npos ? gap : line.find_first_not_of(' ', gap);
  const bool is_command =
      line.substr(indent).starts_with("replay ") || line.substr(indent).starts_with("read ");
  const std::string end = is_command ? " \\" : "";
  if (second == std::string::npos || second > columns / 2) return {indent, blanks + "  ", end};
  return {second, std::string(second, ' '), end};
}

// A word of a line, and whether a blank is before it.
struct Word {
  std::string text;
  bool has_blank = true;
};

// "s)" behind "0.1", which no line parts.
bool is_unit_of(const std::string& word, const std::vector<Word>& before) {
  static const std::string letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ%";
  const auto name = word.substr(0, word.find_first_not_of(letters));
  constexpr std::string_view kUnits[] = {"s", "ms", "min", "MB", "GB", "MiB", "GiB", "%"};
  const bool is_unit = std::find(std::begin(kUnits), std::end(kUnits), name) != std::end(kUnits);
  return is_unit && !before.empty() &&
         before.back().text.find_last_of("0123456789") + 1 == before.back().text.size();
}

// JSON may be broken behind any comma outside of its strings.
std::vector<Word> words_of(const std::string& text, size_t columns) {
  std::vector<Word> words;
  for (const auto& word : split(text, ' ')) {
    if (is_unit_of(word, words)) {
      words.back().text += " " + word;
      continue;
    }
    words.push_back({word});
    if (!(word.starts_with('{') || word.starts_with('[')) || width(word) <= columns) continue;
    words.back().text.clear();
    bool is_in_string = false;
    for (size_t at = 0; at < word.size(); ++at) {
      words.back().text += word[at];
      if (word[at] == '"') is_in_string = !is_in_string;
      if (is_in_string && word[at] == '\\' && at + 1 < word.size()) words.back().text += word[++at];
      if (!is_in_string && word[at] == ',') words.push_back({"", false});
    }
  }
  return words;
}

std::vector<std::string> wrapped(const std::string& line, size_t columns) {
  if (width(line) <= columns) return {line};
  const auto manner = manner_of(line, columns);
  const std::string least(indent_of(line) + 2, ' ');
  std::vector<std::string> lines{line.substr(0, manner.begin)};
  bool is_begun = false;
  for (const auto& [word, has_blank] : words_of(line.substr(manner.begin), columns)) {
    const std::string blank = is_begun && has_blank ? " " : "";
    const size_t wanted = width(lines.back()) + width(blank + word) + width(manner.end);
    if (is_begun && wanted > columns) {
      lines.back().erase(lines.back().find_last_not_of(' ') + 1);
      lines.back() += manner.end;
      const bool is_label = manner.end.empty() && manner.prefix.size() > least.size() &&
                            manner.prefix.find_first_not_of(' ') == std::string::npos;
      const bool fits_below =
          width(manner.prefix + word) > columns && width(least + word) <= columns;
      lines.push_back((is_label && fits_below ? least : manner.prefix) + word);
    } else {
      lines.back() += blank + word;
    }
    is_begun = true;
  }
  return lines;
}

}  // namespace

std::vector<std::string> fitted(const std::vector<std::string>& lines, const Style& style) {
  if (style.columns == 0) return lines;
  std::vector<std::string> out;
  for (const auto& line : lines)
    for (auto& part : wrapped(line, style.columns)) out.push_back(std::move(part));
  return out;
}

void append(std::vector<std::string>& lines, const std::vector<std::string>& more) {
  lines.insert(lines.end(), more.begin(), more.end());
}

std::string cut(const std::string& line, const std::string& sign, size_t columns) {
  if (width(line) <= columns) return line;
  const auto first = [](const std::string& text, size_t count) {
    const auto letters = letters_of(text);
    return joined(Letters(letters.begin(), letters.begin() + static_cast<long>(count)), "");
  };
  if (columns <= width(sign)) return first(sign, columns);
  return first(line, columns - width(sign)) + sign;
}

std::string fitted_row(const std::string& line, const Style& style) {
  if (style.columns == 0) return line;
  std::string out = line;
  while (width(out) > style.columns && cell_count(out) > 1) {
    out.erase(out.rfind("  "));
    out.erase(out.find_last_not_of(' ') + 1);
  }
  return cut(out, shown("…", style), style.columns);
}

}  // namespace lockstep::reports
