#include "tests/train/checkpoint/training.h"

#include "ddp/errors.h"
#include "tests/ddp/forked_world.h"
#include "train/checkpoint/archive.h"
#include "train/checkpoint/pickle_reader.h"

#include <torch/torch.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>

namespace lockstep::testing {

torch::nn::Sequential make_net() {
  torch::nn::Sequential net(torch::nn::BatchNorm1d(3), torch::nn::Linear(3, 4),
                            torch::nn::Linear(4, 2));
  const at::NoGradGuard no_grad;
  const auto parameters = net->parameters();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const at::Tensor& each = parameters[i];
    const at::Tensor places = at::arange(each.numel()) + static_cast<std::int64_t>(i);
    each.copy_((places % 5).view(each.sizes()) * 0.125 - 0.1875);
  }
  return net;
}

std::unique_ptr<torch::optim::Optimizer> make_optimizer(const std::string& kind,
                                                        const std::vector<at::Tensor>& parameters) {
  using namespace torch::optim;
  if (kind == "plain_sgd") return std::make_unique<SGD>(parameters, SGDOptions(0.125));
  if (kind == "sgd")
    return std::make_unique<SGD>(parameters, SGDOptions(0.125).momentum(0.5).nesterov(true));
  if (kind == "adam") return std::make_unique<Adam>(parameters, AdamOptions(0.0625).amsgrad(true));
  if (kind == "adamw")
    return std::make_unique<AdamW>(parameters, AdamWOptions(0.0625).weight_decay(0.25));
  throw std::invalid_argument(kind);
}

void train(torch::nn::Sequential& net, torch::optim::Optimizer& optimizer, int steps) {
  for (int step = 0; step < steps; ++step) {
    optimizer.zero_grad();
    net->forward((at::arange(15.0).to(at::kFloat).view({5, 3}) - step) / 16)
        .square()
        .mean()
        .backward();
    optimizer.step();
  }
}

std::string text_of(const torch::nn::Module& module) {
  std::string text;
  for (const auto& each : module.named_parameters())
    text += each.key() + " " + numbers(each.value()) + "; ";
  for (const auto& each : module.named_buffers())
    text += each.key() + " " + numbers(each.value()) + "; ";
  return text;
}

std::string sentence_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const DisagreementError& error) {
    return error.what();
  }
  return "nothing was thrown";
}

c10::IValue writable(const c10::IValue& value) {
  if (value.isList()) {
    c10::List<c10::IValue> list(c10::AnyType::get());
    for (const c10::IValue& each : value.toListRef()) list.push_back(writable(each));
    return list;
  }
  const auto dict = pickle_dict(value);
  if (!dict) return value;
  c10::impl::GenericDict writable_dict(c10::AnyType::get(), c10::AnyType::get());
  for (const auto& [key, entry] : dict->entries) writable_dict.insert(key, writable(entry));
  return writable_dict;
}

void write_file(const std::string& path, const c10::IValue& value) {
  std::ofstream file(path, std::ios::binary);
  write_archive(value, [&](const void* bytes, std::size_t size) {
    file.write(static_cast<const char*>(bytes), static_cast<std::streamsize>(size));
  });
}

TemporaryFolder::TemporaryFolder()
    : path_((std::filesystem::temp_directory_path() / "lockstep-checkpoint-XXXXXX").string()) {
  if (::mkdtemp(path_.data()) == nullptr) throw std::runtime_error("mkdtemp failed");
}

TemporaryFolder::~TemporaryFolder() {
  std::filesystem::remove_all(path_);
}

}  // namespace lockstep::testing
