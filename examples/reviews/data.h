// Reviews and their labels, of a file of comma-separated values.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

// Samples of a split: `rows` are their places in the whole dataset.
class Reviews : public torch::data::datasets::Dataset<Reviews> {
 public:
  // words: int64 [N, kWords]. labels: int64 [N], 1 for a good review.
  Reviews(at::Tensor words, at::Tensor labels, std::vector<std::size_t> rows)
      : words_(std::move(words)), labels_(std::move(labels)), rows_(std::move(rows)) {}

  torch::data::Example<> get(std::size_t index) override {
    const auto row = static_cast<std::int64_t>(rows_.at(index));
    return {words_[row], labels_[row]};
  }
  std::optional<std::size_t> size() const override { return rows_.size(); }

 private:
  at::Tensor words_, labels_;
  std::vector<std::size_t> rows_;
};

// {words, labels} of the rows in which neither column is empty. A label is positive or 1, or
// negative or 0. Throws std::runtime_error where a column is missing, a label is another, or no row
// is complete.
std::pair<at::Tensor, at::Tensor> read_reviews(const std::string& path, const std::string& text,
                                               const std::string& label);

// Writes reviews of made-up words, of which some tell.
void make_reviews(const std::string& path, std::int64_t count);
