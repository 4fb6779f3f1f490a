#pragma once

#include <ATen/core/ivalue.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/optim/optimizer.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace lockstep::testing {

// The model, the optimizers and the steps of record.py, number by number.
torch::nn::Sequential make_net();
std::unique_ptr<torch::optim::Optimizer> make_optimizer(const std::string& kind,
                                                        const std::vector<at::Tensor>& parameters);
void train(torch::nn::Sequential& net, torch::optim::Optimizer& optimizer, int steps);

// "name numbers; " of every parameter and buffer.
std::string text_of(const torch::nn::Module& module);

// The sentence of the DisagreementError that `act` throws.
std::string sentence_of(const std::function<void()>& act);

// The value of read_archive with LibTorch's dictionaries, which write_file takes.
c10::IValue writable(const c10::IValue& value);

// A file of such a value.
void write_file(const std::string& path, const c10::IValue& value);

// A folder that is removed in the end.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  // The path of a file in it.
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

}  // namespace lockstep::testing
