#include "reference/training.h"

#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace lockstep::reference {

namespace {

double finest_bit_of(double value) {
  if (value == 0 || !std::isfinite(value)) return 0;
  int exponent = 0;
  const double fraction = std::frexp(std::abs(value), &exponent);
  auto digits = static_cast<uint64_t>(std::ldexp(fraction, 53));
  int trailing = 0;
  while ((digits & 1) == 0) {
    digits >>= 1;
    ++trailing;
  }
  return std::ldexp(1.0, exponent - 53 + trailing);
}

double largest(const at::Tensor& values) {
  return values.numel() == 0 ? 0.0 : values.abs().max().item<double>();
}

// Collects how many units of its finest bit any partial sum can reach.
class Meter {
 public:
  void saw(const at::Tensor& terms, double unit) {
    const double most = largest(terms);
    if (most > 0 && unit > 0) units_max_ = std::max(units_max_, most / unit);
    // A unit that underflows to zero has no exact representation anywhere.
    if (most > 0 && unit == 0) units_max_ = std::numeric_limits<double>::infinity();
  }
  double units_max() const { return units_max_; }

 private:
  double units_max_ = 0;
};

// a b, measured. `a` and `b` are exact already, so only this product's own sums count.
at::Tensor product(const at::Tensor& a, const at::Tensor& b, Meter& meter) {
  meter.saw(at::matmul(a.abs(), b.abs()), finest_bit(a) * finest_bit(b));
  return at::matmul(a, b);
}

// The sum over samples, measured.
at::Tensor sum_of_samples(const at::Tensor& values, Meter& meter) {
  meter.saw(values.abs().sum(0), finest_bit(values));
  return values.sum(0);
}

at::Tensor plus(const at::Tensor& a, const at::Tensor& b, Meter& meter) {
  const double fine_a = finest_bit(a), fine_b = finest_bit(b);
  const double unit = fine_a == 0 ? fine_b : fine_b == 0 ? fine_a : std::min(fine_a, fine_b);
  meter.saw(a.abs() + b.abs(), unit);
  return a + b;
}

// What backward needs of one layer's forward.
struct Kept {
  at::Tensor input, passed;  // passed: 1 where the gradient passes the relu
};

at::Tensor forward(const Branch& branch, at::Tensor x, std::vector<Kept>& kept, Meter& meter) {
  for (const auto& layer : branch) {
    auto y = product(x, layer.weight.t(), meter);
    if (layer.bias.defined()) y = plus(y, layer.bias.expand_as(y), meter);
    const auto passed = layer.relu ? (y > 0).to(at::kDouble) : at::ones_like(y);
    kept.push_back({x, passed});
    x = y * passed;
  }
  return x;
}

// Gradients of one branch, last layer first.
std::vector<at::Tensor> backward(const Branch& branch, const std::vector<Kept>& kept, at::Tensor d,
                                 Meter& meter) {
  std::vector<at::Tensor> reversed;
  for (size_t i = branch.size(); i-- > 0;) {
    d = d * kept[i].passed;
    if (branch[i].bias.defined()) reversed.push_back(sum_of_samples(d, meter));
    reversed.push_back(product(d.t(), kept[i].input, meter));
    if (i > 0) d = product(d, branch[i].weight, meter);
  }
  return reversed;
}

}  // namespace

double finest_bit(const at::Tensor& values) {
  const auto flat = values.contiguous();
  const auto* data = flat.const_data_ptr<double>();
  double finest = 0;
  for (int64_t i = 0; i < flat.numel(); ++i)
    if (const double bit = finest_bit_of(data[i]); bit > 0 && (finest == 0 || bit < finest))
      finest = bit;
  return finest;
}

Gradients gradients(const std::vector<Branch>& network, const Batch& batch, double weight) {
  Gradients out;
  Meter meter;
  const auto cotangents = batch.cotangents * weight;
  at::Tensor output;
  for (const auto& branch : network) {
    std::vector<Kept> kept;
    const auto branch_output = forward(branch, batch.inputs, kept, meter);
    output = output.defined() ? plus(output, branch_output, meter) : branch_output;
    auto reversed = backward(branch, kept, cotangents, meter);
    out.by_parameter.insert(out.by_parameter.end(), reversed.rbegin(), reversed.rend());
  }
  out.partial_sum_units_max = meter.units_max();
  return out;
}

namespace {

// Whether x * fl(1/W), rounded, is x / W exactly, in a format of `bits` bits.
bool scales_exactly(const at::Tensor& local, size_t world, int bits) {
  const auto divisor = static_cast<double>(world);
  if (bits == 24) {
    const auto narrow = local.to(at::kFloat);
    const auto scaled = narrow * static_cast<float>(1.0F / static_cast<float>(world));
    return at::equal(narrow.to(at::kDouble), local) &&
           at::equal(scaled.to(at::kDouble) * divisor, local);
  }
  return at::equal(local * (1.0 / divisor) * divisor, local) &&
         at::equal(local * (1.0 / divisor), local / divisor);
}

}  // namespace

std::string why_not_exact(const std::vector<Gradients>& by_rank, const Gradients& whole,
                          int precision_bits) {
  const double units_allowed = std::ldexp(1.0, precision_bits);
  const auto world = by_rank.size();
  for (const auto& rank : by_rank)
    if (rank.partial_sum_units_max > units_allowed) return "a rank's partial sums need more bits";
  if (whole.partial_sum_units_max > units_allowed) return "the whole batch's sums need more bits";
  Meter meter;
  for (size_t p = 0; p < whole.by_parameter.size(); ++p) {
    auto average = at::zeros_like(whole.by_parameter[p]);
    auto terms = at::zeros_like(average);
    double unit = 0;
    for (const auto& rank : by_rank) {
      const auto& local = rank.by_parameter[p];
      if (!scales_exactly(local, world, precision_bits))
        return "scaling by the rounded 1/" + std::to_string(world) + " is not exact";
      const auto share = local / static_cast<double>(world);
      const double bit = finest_bit(share);
      if (bit > 0 && (unit == 0 || bit < unit)) unit = bit;
      average = average + share;
      terms = terms + share.abs();
    }
    meter.saw(terms, unit);
    if (!at::equal(average, whole.by_parameter[p]))
      return "the average of the ranks' gradients is not the whole batch's in double precision";
  }
  if (meter.units_max() > units_allowed) return "the average's partial sums need more bits";
  return "";
}

}  // namespace lockstep::reference
