#pragma once

#include "ddp/options.h"

#include <torch/nn/module.h>
#include <torch/types.h>

#include <exception>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::testing {

// 2 on rank 0, 4 on all others: 3 on average in a world of two.
double share(const c10::intrusive_ptr<c10d::ProcessGroup>& group);

// `options` with every way to hold gradients: copied or as views, one by one or in batches.
std::vector<DistributedDataParallelOptions> ways_to_hold(
    const DistributedDataParallelOptions& options = {});
// These, with one bucket and with one for each parameter.
std::vector<DistributedDataParallelOptions> all_ways(const DistributedDataParallelOptions& options);

// "rank 0: all is well; rank 1: lacks 'w0'...": what an UnfinishedReductionError tells of each
// rank.
std::string validation_errors_in(const std::exception& error);

// `count` parameters w0, w1, ... of `size` elements, all `value` at first. A term (i, c) of the
// loss is c times the sum of w_i, so the gradient of w_i is c in every element; terms are added in
// the order they are given, and autograd walks them backwards.
class TermsImpl : public torch::nn::Module {
 public:
  using Loss = std::vector<std::pair<int, double>>;

  explicit TermsImpl(int count, std::int64_t size = 2, double value = 0.0,
                     at::ScalarType dtype = at::kDouble) {
    for (int i = 0; i < count; ++i) {
      weights.push_back(register_parameter("w" + std::to_string(i),
                                           torch::full({size}, value, torch::dtype(dtype))));
    }
  }

  at::Tensor forward(const Loss& loss) {
    at::Tensor total;
    for (const auto& [index, factor] : loss) {
      const at::Tensor term =
          (weights[static_cast<std::size_t>(index)] * factor).sum().to(at::kDouble);
      total = total.defined() ? total + term : term;
    }
    return total;
  }

  // "w0's gradient | w1's gradient | ..."; "none" where there is none.
  std::string gradients() const;

  std::vector<at::Tensor> weights;
};
TORCH_MODULE(Terms);

// One weight and three buffers of different dtypes, all at `start`. forward notes the buffers it
// finds and adds `step` to the two that count.
class CountingImpl : public torch::nn::Module {
 public:
  explicit CountingImpl(double start)
      : weight(register_parameter("weight", torch::ones({1}, at::kDouble))) {
    register_buffer("average", torch::full({2}, start, torch::dtype(at::kDouble)));
    register_buffer("count", torch::full({}, start, torch::dtype(at::kLong)));
    register_buffer("positive", torch::full({1}, start > 0, torch::dtype(at::kBool)));
  }

  at::Tensor forward(const at::Tensor& input, double step) {
    found = state();
    named_buffers()["average"].add_(step);
    named_buffers()["count"].add_(static_cast<std::int64_t>(step));
    return (weight * input).sum();
  }

  // "average | count | positive".
  std::string state() const;

  at::Tensor weight;
  std::string found;  // the buffers as the last forward found them
};
TORCH_MODULE(Counting);

}  // namespace lockstep::testing
