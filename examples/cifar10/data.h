// CIFAR-10 in its binary format: https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz, 170 MB.
// Files data_batch_1.bin to data_batch_5.bin and test_batch.bin hold records of 3,073 bytes: a
// label from 0 to 9, then 32 x 32 pixels, row by row, of red, then of green, then of blue.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <string>
#include <vector>

class Cifar10 : public torch::data::datasets::Dataset<Cifar10> {
 public:
  // Reads the files of `folder`: those for training, or that for testing. Throws std::runtime_error
  // with the file's name where one is missing or is not of this format.
  Cifar10(const std::string& folder, bool is_for_training);

  // data: float32 [3, 32, 32], from -1 to 1. target: int64 [].
  torch::data::Example<> get(std::size_t index) override;
  std::optional<std::size_t> size() const override { return images_.size(0); }

 private:
  at::Tensor images_;  // uint8 [N, 3, 32, 32]
  at::Tensor labels_;  // int64 [N]
};

// Writes made-up data in that format: `count` images a file. Each class is brighter in a place of
// its own, so that it can be learnt.
void make_cifar10(const std::string& folder, std::int64_t count);
