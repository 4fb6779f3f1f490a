#include "tests/ddp/modules.h"

#include "tests/ddp/forked_world.h"

#include <torch/torch.h>

namespace lockstep::testing {

std::string complaints_in(const std::exception& error) {
  const std::string sentence = error.what();
  const auto begin = sentence.find("rank 0: ");
  return begin == std::string::npos ? "no complaints in: " + sentence : sentence.substr(begin);
}

std::string TermsImpl::gradients() const {
  std::string text;
  for (const at::Tensor& weight : weights) {
    if (!text.empty()) text += " | ";
    text += weight.grad().defined() ? numbers(weight.grad()) : "none";
  }
  return text;
}

std::string CountingImpl::state() const {
  std::string text;
  for (const at::Tensor& buffer : buffers()) {
    if (!text.empty()) text += " | ";
    text += numbers(buffer);
  }
  return text;
}

}  // namespace lockstep::testing
