#include "ddp/power_sgd.h"

#include "ddp/errors.h"
#include "ddp/hooks/orthonormal.h"

#include <ATen/CPUGeneratorImpl.h>
#include <torch/torch.h>

#include <algorithm>
#include <sstream>

namespace lockstep {

namespace {

void check(const PowerSgdOptions& options) {
  const auto refuse = [](const auto&... parts) {
    throw UsageError(c10::str("PowerSgd: ", parts...));
  };
  if (options.matrix_approximation_rank < 1) {
    refuse("matrix_approximation_rank is ", options.matrix_approximation_rank,
           ", expected at least 1");
  }
  if (options.start_power_sgd_iter < 0) {
    refuse("start_power_sgd_iter is ", options.start_power_sgd_iter, ", expected at least 0");
  }
  if (!(options.min_compression_rate > 0.0)) {
    refuse("min_compression_rate is ", options.min_compression_rate, ", expected more than 0");
  }
}

// One after the other, as a 1-D tensor of its own.
at::Tensor joined(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> rows;
  for (const at::Tensor& tensor : tensors) {
    rows.push_back((tensor.is_complex() ? at::view_as_real(tensor) : tensor).reshape({-1}));
  }
  return at::cat(rows);
}

// Overwrites them with what joined() would make `row` of.
void part(const at::Tensor& row, const std::vector<at::Tensor>& tensors) {
  std::int64_t offset = 0;
  for (const at::Tensor& tensor : tensors) {
    const at::Tensor real = tensor.is_complex() ? at::view_as_real(tensor) : tensor;
    real.copy_(row.narrow(0, offset, real.numel()).view(real.sizes()));
    offset += real.numel();
  }
}

at::Tensor sum_of(const std::vector<at::Tensor>& tensors, HookCollectives& collectives) {
  const at::Tensor sum = joined(tensors);
  collectives.all_reduce(sum).wait();
  return sum;
}

std::int64_t columns_of(const at::Tensor& gradient) {
  return gradient.numel() / gradient.size(0);
}

}  // namespace

// A gradient M that is approximated by P Q^T.
struct PowerSgd::Factors {
  Kept* kept;
  at::Tensor gradient;  // where the average goes
  at::Tensor matrix;    // M, with what was left out before
  at::Tensor p, q;
};

PowerSgd::PowerSgd(const PowerSgdOptions& options)
    : options_(options), generator_(at::detail::createCPUGenerator(options.random_seed)) {
  check(options_);
}

std::string PowerSgd::description() const {
  std::ostringstream text;
  text << "power_sgd, matrix_approximation_rank " << options_.matrix_approximation_rank
       << ", start_power_sgd_iter " << options_.start_power_sgd_iter << ", min_compression_rate "
       << options_.min_compression_rate << ", use_error_feedback " << options_.use_error_feedback
       << ", warm_start " << options_.warm_start << ", random_seed " << options_.random_seed;
  return text.str();
}

bool PowerSgd::is_approximated(const at::Tensor& gradient) const {
  if (gradient.dim() < 2 || gradient.numel() == 0 || gradient.is_complex()) return false;
  const auto rows = static_cast<double>(gradient.size(0));
  const auto columns = static_cast<double>(columns_of(gradient));
  return (rows + columns) * static_cast<double>(options_.matrix_approximation_rank) *
             options_.min_compression_rate <
         rows * columns;
}

std::int64_t PowerSgd::columns_sent(std::int64_t rows, std::int64_t columns) const {
  return std::min({options_.matrix_approximation_rank, rows, columns});
}

// Random numbers are drawn in launch order, so they are the same on all ranks.
at::Tensor PowerSgd::first_q(const at::Tensor& matrix, const Kept& kept) {
  const std::int64_t rank = columns_sent(matrix.size(0), matrix.size(1));
  const auto drawn = [&] {
    return at::randn({matrix.size(1), rank}, generator_, at::TensorOptions().dtype(at::kDouble))
        .to(matrix.options());
  };
  if (!options_.warm_start || !kept.q.defined()) return orthonormal(drawn());
  const at::Tensor warm = orthonormal(kept.q);
  const at::Tensor is_nothing = warm.abs().amax(0) == 0;
  if (!is_nothing.any().item<bool>()) return warm;
  return orthonormal(at::where(is_nothing, drawn(), warm));
}

PowerSgd::Factors PowerSgd::started(const at::Tensor& parameter, const at::Tensor& gradient) {
  Kept& kept = kept_[parameter.unsafeGetTensorImpl()];
  const at::ScalarType dtype = gradient.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  at::Tensor matrix =
      gradient.reshape({gradient.size(0), -1}).to(dtype, /*non_blocking=*/false, /*copy=*/true);
  if (kept.left_out.defined()) matrix += kept.left_out;
  const at::Tensor q = first_q(matrix, kept);
  return {.kept = &kept, .gradient = gradient, .matrix = matrix, .p = matrix.mm(q), .q = q};
}

// The ranks hold the same P and Q, so they decide alike whether the average is finite.
void PowerSgd::finish(Factors& factors, const HookCollectives& collectives) {
  const at::Tensor average = factors.p.mm(factors.q.t());
  factors.gradient.copy_(average.view(factors.gradient.sizes()));
  if (average.isfinite().all().item<bool>()) {
    // Where the divisor is not the world size, in a join, the ranks have sent divisor times the
    // average.
    const double share = static_cast<double>(collectives.divisor()) / collectives.world_size();
    if (options_.use_error_feedback) {
      const at::Tensor applied = factors.gradient.reshape(average.sizes()).to(average.dtype());
      factors.kept->left_out = factors.matrix - applied * share;
    }
    if (options_.warm_start) factors.kept->q = factors.q;
  }
}

HookResult PowerSgd::run(GradBucket& bucket, HookCollectives& collectives) {
  if (bucket.is_first()) {
    compare_states(collectives, bucket.buffer().device());
    ++passes_;
  }

  std::vector<at::Tensor> averaged;
  std::vector<Factors> approximated;
  const bool has_started = passes_ > options_.start_power_sgd_iter;
  for (std::size_t i = 0; i < bucket.gradients().size(); ++i) {
    const at::Tensor& gradient = bucket.gradients()[i];
    if (has_started && is_approximated(gradient))
      approximated.push_back(started(bucket.parameters()[i], gradient));
    else
      averaged.push_back(gradient);
  }

  std::vector<StartedCollective> sums;
  at::Tensor plain, p;
  if (!averaged.empty()) {
    plain = joined(averaged).mul_(1.0 / collectives.divisor());
    sums.push_back(collectives.all_reduce(plain));
  }
  if (!approximated.empty()) {
    std::vector<at::Tensor> ps;
    for (const Factors& factors : approximated) ps.push_back(factors.p);
    p = joined(ps);
    sums.push_back(collectives.all_reduce(p));
  }
  if (has_started) count(averaged, approximated);

  return HookResult([this, buffer = bucket.buffer(), averaged, approximated, sums, plain, p,
                     collectives]() mutable {
    for (StartedCollective& sum : sums) sum.wait();
    if (!averaged.empty()) part(plain, averaged);
    if (approximated.empty()) return buffer;
    std::vector<at::Tensor> ps, qs;
    for (const Factors& factors : approximated) ps.push_back(factors.p);
    part(p, ps);
    for (Factors& factors : approximated) {
      factors.p = orthonormal(factors.p);
      factors.q = factors.matrix.t().mm(factors.p);
      qs.push_back(factors.q);
    }
    part(sum_of(qs, collectives).div_(collectives.divisor()), qs);
    for (Factors& factors : approximated) finish(factors, collectives);
    return buffer;
  });
}

void PowerSgd::count(const std::vector<at::Tensor>& averaged,
                     const std::vector<Factors>& approximated) {
  for (const at::Tensor& each : averaged) {
    sent_.before += each.numel();
    sent_.after += each.numel();
  }
  for (const Factors& each : approximated) {
    sent_.before += each.matrix.numel();
    sent_.after += each.p.numel() + each.q.numel();
  }
}

at::Tensor PowerSgd::left_out(const at::Tensor& parameter) const {
  const auto found = kept_.find(parameter.unsafeGetTensorImpl());
  if (found == kept_.end() || !found->second.left_out.defined()) return {};
  return found->second.left_out.view(parameter.sizes());
}

}  // namespace lockstep
