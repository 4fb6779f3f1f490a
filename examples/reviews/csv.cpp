#include "csv.h"

#include <array>
#include <fstream>
#include <stdexcept>
#include <string_view>

namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";  // of UTF-8, as spreadsheets write it

// Reads one character at a time, and knows the line it is in.
class Reader {
 public:
  Reader(std::string path, std::string text) : path_(std::move(path)), text_(std::move(text)) {
    if (text_.starts_with(kByteOrderMark)) at_ = kByteOrderMark.size();
  }

  std::vector<std::vector<std::string>> rows() {
    std::vector<std::vector<std::string>> rows;
    while (at_ < text_.size()) {
      const int first_line = line_;
      auto row = next_row();
      if (row.size() == 1 && row.front().empty()) continue;  // an empty line
      if (!rows.empty() && row.size() != rows.front().size()) {
        fail(first_line, "has " + std::to_string(row.size()) + " fields, expected " +
                             std::to_string(rows.front().size()) + " as in the header");
      }
      rows.push_back(std::move(row));
    }
    return rows;
  }

 private:
  std::vector<std::string> next_row() {
    std::vector<std::string> row{next_field()};
    while (take(',')) row.push_back(next_field());
    take('\r');
    if (at_ < text_.size() && !take('\n')) fail(line_, "has text behind a quoted field");
    return row;
  }

  std::string next_field() {
    std::string field;
    if (!take('"')) {
      while (at_ < text_.size() && text_[at_] != ',' && text_[at_] != '\n' && text_[at_] != '\r') {
        field += text_[at_++];
      }
      return field;
    }
    const int first_line = line_;
    while (at_ < text_.size()) {
      if (!take('"')) {
        field += text_[at_];
        take(text_[at_]);
      } else if (take('"')) {
        field += '"';
      } else {
        return field;
      }
    }
    fail(first_line, "opens a quote that is never closed");
  }

  bool take(char c) {
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    if (c == '\n') ++line_;
    return true;
  }

  [[noreturn]] void fail(int line, const std::string& what) const {
    throw std::runtime_error(path_ + ":" + std::to_string(line) + ": " + what);
  }

  std::string path_, text_;
  std::size_t at_ = 0;
  int line_ = 1;
};

// Throws for a folder too, which can be opened and not read.
std::string text_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text;
  std::array<char, 1 << 16> part;
  while (file.read(part.data(), static_cast<std::streamsize>(part.size())), file.gcount() > 0) {
    text.append(part.data(), static_cast<std::size_t>(file.gcount()));
  }
  if (!file.eof()) throw std::runtime_error(path + ": cannot be read");
  return text;
}

}  // namespace

std::vector<std::vector<std::string>> rows_of_csv(const std::string& path) {
  return Reader(path, text_of(path)).rows();
}

std::string csv_field(const std::string& field) {
  std::string text = "\"";
  for (const char c : field) text += c == '"' ? "\"\"" : std::string(1, c);
  return text + "\"";
}
