#include "tests/ddp/modules.h"

#include "tests/ddp/forked_world.h"

#include <torch/torch.h>

namespace lockstep::testing {

double share(const c10::intrusive_ptr<c10d::ProcessGroup>& group) {
  return group->getRank() == 0 ? 2.0 : 4.0;
}

std::vector<DistributedDataParallelOptions> ways_to_hold(
    const DistributedDataParallelOptions& options) {
  std::vector<DistributedDataParallelOptions> all;
  for (const bool views : {false, true}) {
    for (const bool batched : {false, true}) {
      all.push_back(options);
      all.back().gradient_as_bucket_view = views;
      all.back().batched_grad_copy = batched;
    }
  }
  return all;
}

std::vector<DistributedDataParallelOptions> all_ways(
    const DistributedDataParallelOptions& options) {
  std::vector<DistributedDataParallelOptions> all;
  for (const std::optional<double> cap : {std::optional<double>(), {0.0}}) {
    for (DistributedDataParallelOptions& way : ways_to_hold(options)) {
      way.bucket_cap_mb = cap;
      all.push_back(std::move(way));
    }
  }
  return all;
}

std::string validation_errors_in(const std::exception& error) {
  const std::string sentence = error.what();
  const auto begin = sentence.find("rank 0: ");
  return begin == std::string::npos ? "no error in: " + sentence : sentence.substr(begin);
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
