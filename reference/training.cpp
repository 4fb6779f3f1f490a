#include "reference/training.h"

#include <torch/torch.h>

#include <algorithm>
#include <cmath>

namespace lockstep::reference {

namespace {

// The values of one layer's forward that backward needs.
struct Kept {
  Rounded input;
  at::Tensor passed;  // 1 where the gradient passes the relu
};

Rounded masked(const Rounded& values, const at::Tensor& mask) {
  return {values.value * mask, values.error * mask};
}

// One network's computation on one batch.
class Pass {
 public:
  explicit Pass(const Format& format) : arithmetic_(format) {}

  Rounded forward(const Branch& branch, Rounded x, std::vector<Kept>& kept) {
    for (const auto& layer : branch) {
      const auto y = arithmetic_.affine(x, layer.weight, layer.bias);
      const auto passed = layer.relu ? passing(y) : at::ones_like(y.value);
      kept.push_back({x, passed});
      x = masked(y, passed);
    }
    return x;
  }

  // Gradients of one branch, last layer first.
  std::vector<Rounded> backward(const Branch& branch, const std::vector<Kept>& kept, Rounded d) {
    std::vector<Rounded> reversed;
    for (size_t i = branch.size(); i-- > 0;) {
      d = masked(d, kept[i].passed);
      if (branch[i].bias.value.defined()) reversed.push_back(arithmetic_.sum_of_samples(d));
      reversed.push_back(arithmetic_.product({d.value.t(), d.error.t()}, kept[i].input));
      if (i > 0) d = arithmetic_.product(d, branch[i].weight);
    }
    return reversed;
  }

  Arithmetic& arithmetic() { return arithmetic_; }
  bool is_undecided() const { return is_undecided_; }

 private:
  at::Tensor passing(const Rounded& y) {
    const auto unclear = at::logical_and(y.value.abs() <= y.error, y.error > 0);
    is_undecided_ = is_undecided_ || unclear.any().item<bool>();
    return (y.value > 0).to(at::kDouble);
  }

  Arithmetic arithmetic_;
  bool is_undecided_ = false;
};

// True if x * fl(1/W), rounded, is x / W exactly, in the format.
bool scales_exactly(const at::Tensor& local, size_t world, const Format& format) {
  const auto divisor = static_cast<double>(world);
  if (format.precision_bits == 24) {
    const auto narrow = local.to(at::kFloat);
    const auto scaled = narrow * static_cast<float>(1.0F / static_cast<float>(world));
    return at::equal(narrow.to(at::kDouble), local) &&
           at::equal(scaled.to(at::kDouble) * divisor, local);
  }
  return at::equal(local * (1.0 / divisor) * divisor, local) &&
         at::equal(local * (1.0 / divisor), local / divisor);
}

std::vector<Rounded> of_parameter(const std::vector<Gradients>& by_rank, size_t p) {
  std::vector<Rounded> out;
  for (const auto& rank : by_rank) out.push_back(rank.by_parameter[p]);
  return out;
}

}  // namespace

Gradients gradients(const std::vector<Branch>& network, const Batch& batch, double weight,
                    const Format& format) {
  Gradients out;
  Pass pass(format);
  const auto cotangents = pass.arithmetic().times(given(batch.cotangents), weight);
  Rounded output;
  for (const auto& branch : network) {
    std::vector<Kept> kept;
    const auto branch_output = pass.forward(branch, given(batch.inputs), kept);
    output = output.value.defined() ? pass.arithmetic().plus(output, branch_output) : branch_output;
    auto reversed = pass.backward(branch, kept, cotangents);
    out.by_parameter.insert(out.by_parameter.end(), reversed.rbegin(), reversed.rend());
  }
  out.partial_sum_units_max = pass.arithmetic().units_max();
  out.is_undecided = pass.is_undecided();
  return out;
}

Gradients accumulated(const std::vector<Gradients>& gradients, const Format& format) {
  Gradients out = gradients.front();
  Arithmetic arithmetic(format);
  for (size_t i = 1; i < gradients.size(); ++i) {
    for (size_t p = 0; p < out.by_parameter.size(); ++p)
      out.by_parameter[p] = arithmetic.plus(out.by_parameter[p], gradients[i].by_parameter[p]);
    out.partial_sum_units_max =
        std::max(out.partial_sum_units_max, gradients[i].partial_sum_units_max);
    out.is_undecided = out.is_undecided || gradients[i].is_undecided;
  }
  out.partial_sum_units_max = std::max(out.partial_sum_units_max, arithmetic.units_max());
  return out;
}

std::string why_not_exact(const std::vector<Gradients>& by_rank, const Gradients& whole,
                          const Format& format) {
  const double units_allowed = std::ldexp(1.0, format.precision_bits);
  for (const auto& rank : by_rank)
    if (rank.partial_sum_units_max > units_allowed) return "a rank's partial sums need more bits";
  if (whole.partial_sum_units_max > units_allowed) return "the whole batch's sums need more bits";
  Arithmetic arithmetic(format);
  for (size_t p = 0; p < whole.by_parameter.size(); ++p) {
    for (const auto& rank : by_rank)
      if (!scales_exactly(rank.by_parameter[p].value, by_rank.size(), format))
        return "scaling by the rounded 1/" + std::to_string(by_rank.size()) + " is not exact";
    const auto average = arithmetic.average(of_parameter(by_rank, p));
    if (!at::equal(average.value, whole.by_parameter[p].value))
      return "the average of the ranks' gradients is not the whole batch's in double precision";
  }
  if (arithmetic.units_max() > units_allowed) return "the average's partial sums need more bits";
  return "";
}

std::vector<Rounded> averages(const std::vector<Gradients>& by_rank, const Gradients& whole,
                              const Format& format) {
  std::vector<Rounded> out;
  Arithmetic arithmetic(format);
  for (size_t p = 0; p < whole.by_parameter.size(); ++p) {
    const auto& value = whole.by_parameter[p].value;
    const auto average = arithmetic.average(of_parameter(by_rank, p));
    out.push_back({value, average.error + (average.value - value).abs()});
  }
  return out;
}

}  // namespace lockstep::reference
