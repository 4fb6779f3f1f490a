#pragma once

#include "ddp/communication_hook.h"

#include <ATen/core/Generator.h>
#include <torch/nn/module.h>

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace torch::serialize {
class InputArchive;
class OutputArchive;
}  // namespace torch::serialize

namespace lockstep {

// All are equal on all ranks.
struct PowerSgdOptions {
  // The rank of the matrices that approximate gradients; lower sends less. At least 1.
  std::int64_t matrix_approximation_rank = 1;

  // The first so many passes are averaged as without a hook. At least 0.
  std::int64_t start_power_sgd_iter = 1000;

  // A gradient of n x m is approximated if that sends fewer elements by more than this factor:
  // (n + m) * rank * min_compression_rate < n * m. Others are averaged.
  double min_compression_rate = 2.0;

  // Adds what one pass left out to the gradients of the next. Takes a copy of these gradients.
  bool use_error_feedback = true;

  // Begins each approximation with the last one, not with random numbers.
  bool warm_start = true;

  std::uint64_t random_seed = 0;
};

// A communication hook that sends gradients as products of two thin matrices: of each gradient M of
// n x m (dimensions after the first are one) P = M Q is summed over the ranks, its columns made
// orthonormal, and Q = M^T P averaged; the average is P Q^T. Vectors, complex gradients and small
// ones are averaged as they are. Half-precision gradients are approximated in float32.
//
// The part that a pass left out differs between ranks, and adds up with what is applied: over the
// ranks the average of M plus what was left out before is P Q^T plus what is left out now. Source:
// Vogels et al. 2019; torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook. PyTorch keeps its
// state by bucket, so it begins after the second pass; this one keeps it by parameter. A column
// that adds nothing to the others becomes zero, so there is no epsilon. A pass whose average is not
// finite changes nothing that is kept. docs/semantics.md 2.9.
class PowerSgd : public CommunicationHook {
 public:
  // Throws UsageError, naming the option.
  explicit PowerSgd(const PowerSgdOptions& options = {});

  std::string description() const override;
  HookResult run(GradBucket& bucket, HookCollectives& collectives) override;

  // Elements of gradients so far in approximated passes, and elements sent in their place. Local.
  struct Sent {
    std::int64_t before = 0, after = 0;
  };
  Sent sent() const { return sent_; }

  // Local. Returns the part of a parameter's gradients that was left out so far on this rank, in
  // its shape; undefined where nothing is kept.
  at::Tensor left_out(const at::Tensor& parameter) const;

  // The state by the names that parameters have in `module`, the one that is wrapped. Local: every
  // rank saves its own, since ranks left out different parts, and loads it before the first pass,
  // or before update_process_group(): in the pass behind these the ranks compare what has to be
  // equal, and different ones end the instance with a sentence. A pass behind a load() without
  // these ends it too. Both throw UsageError for parameters that `module` does not have; load()
  // also for another shape or matrix_approximation_rank, and an archive that is not of save(), and
  // then changes nothing. A parameter that the archive does not have begins anew.
  void save(torch::serialize::OutputArchive& archive, const torch::nn::Module& module) const;
  void load(torch::serialize::InputArchive& archive, const torch::nn::Module& module);

 private:
  struct Kept {
    at::Tensor left_out;  // [n, m]
    at::Tensor q;         // [m, rank]
  };
  struct Factors;

  bool is_approximated(const at::Tensor& gradient) const;
  std::int64_t columns_sent(std::int64_t rows, std::int64_t columns) const;  // of P, and of Q
  void check_fits(const std::string& name, const at::Tensor& parameter, const Kept& kept) const;
  void compare_states(HookCollectives& collectives, const at::Device& device);
  void begin_factors_anew(std::int64_t passes);
  Factors started(const at::Tensor& parameter, const at::Tensor& gradient);
  at::Tensor first_q(const at::Tensor& matrix, const Kept& kept);
  void finish(Factors& factors, const HookCollectives& collectives);
  void count(const std::vector<at::Tensor>& averaged, const std::vector<Factors>& approximated);

  const PowerSgdOptions options_;
  at::Generator generator_;
  std::int64_t passes_ = 0;  // those begun
  bool is_loaded_ = false;   // and not compared since
  Sent sent_;
  std::map<const at::TensorImpl*, Kept> kept_;
};

}  // namespace lockstep
