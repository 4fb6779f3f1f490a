#include "data.h"

#include "csv.h"
#include "words.h"

#include <algorithm>
#include <fstream>
#include <random>
#include <stdexcept>

namespace {

// int64 [kWords]
at::Tensor numbers_of(const std::string& review) {
  std::vector<std::int64_t> numbers;
  for (const auto& word : words_of(review)) numbers.push_back(bucket_of(word));
  numbers.resize(kWords, 0);
  return torch::tensor(numbers);
}

std::size_t column_of(const std::string& path, const std::vector<std::string>& header,
                      const std::string& name) {
  const auto found = std::find(header.begin(), header.end(), name);
  if (found != header.end()) return static_cast<std::size_t>(found - header.begin());
  std::string names;
  for (const auto& each : header) names += (names.empty() ? "" : ", ") + each;
  throw std::runtime_error(path + ": has no column '" + name + "', but " + names +
                           ": --text and --label say which to read");
}

}  // namespace

std::pair<at::Tensor, at::Tensor> read_reviews(const std::string& path, const std::string& text,
                                               const std::string& label) {
  const auto rows = rows_of_csv(path);
  if (rows.empty()) throw std::runtime_error(path + ": is empty");
  const auto review = column_of(path, rows[0], text), sentiment = column_of(path, rows[0], label);
  std::vector<at::Tensor> words;
  std::vector<std::int64_t> labels;
  for (std::size_t i = 1; i < rows.size(); ++i) {
    const auto& said = rows[i][sentiment];
    if (rows[i][review].empty() || said.empty()) continue;
    const bool is_good = said == "positive" || said == "1";
    if (!is_good && said != "negative" && said != "0") {
      throw std::runtime_error(path + ": row " + std::to_string(i) + " has the " + label + " '" +
                               said + "', expected positive or 1, or negative or 0");
    }
    words.push_back(numbers_of(rows[i][review]));
    labels.push_back(is_good ? 1 : 0);
  }
  if (words.empty()) throw std::runtime_error(path + ": has no complete row");
  return {torch::stack(words), torch::tensor(labels)};
}

void make_reviews(const std::string& path, std::int64_t count) {
  const std::vector<std::string> good{"great", "moving", "\"brilliant\""},
      bad{"dull", "awful", "tired, slow"};
  std::mt19937 draw(7);
  std::ofstream file(path);
  file << "review,sentiment\n";
  for (std::int64_t i = 0; i < count; ++i) {
    const bool is_good = draw() % 2 == 0;
    std::string text;
    for (auto words = draw() % 30; words > 0; --words)
      text += "word" + std::to_string(draw() % 500) + " ";
    text += (is_good ? good : bad)[draw() % 3];
    file << csv_field(text) << "," << (is_good ? "positive" : "negative") << "\n";
    if (i % 50 == 49) file << ",positive\n";  // to be dropped
  }
  if (!file.flush()) throw std::runtime_error(path + ": cannot be written");
}
