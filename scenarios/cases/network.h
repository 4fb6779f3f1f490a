// The network of a Training case as a LibTorch module, and the values a case gives it.
#pragma once

#include "harness/world/rank_context.h"
#include "harness/world/subject.h"
#include "scenarios/cases/training.h"

#include <functional>

namespace lockstep::scenarios {

// Whole numbers of small size, so that training stays exact; see docs/numerics.md.
inline constexpr int64_t kParameterMost = 2;
inline constexpr int64_t kInputMost = 3;

class Network : public Model {
 public:
  // Parameters and buffers are those of a process whose own seed is `build_seed`: what a rank has
  // before replicas are made equal.
  Network(const Training& c, uint64_t build_seed);

  // input: [samples, inputs] -> [samples, 1]. `first_branch` runs first; the sum is always in the
  // order of the branches.
  at::Tensor forward(const at::Tensor& input) override;
  void set_first_branch(int branch) { first_branch_ = branch; }

  // Called as a forward begins, when all that precedes it has been done.
  std::function<void()> on_entry;

 protected:
  // What of a branch's output goes into the sum.
  virtual at::Tensor passed_on(int /*branch*/, const at::Tensor& output) { return output; }

 private:
  std::vector<torch::nn::Sequential> branches_;
  int first_branch_ = 0;
};

struct NamedTensor {
  std::string name;
  at::Tensor value;
};

// What rank `rank` builds before it wraps: every rank another seed.
uint64_t build_seed(const Training& c, int rank);

// Names and values at the start: the trainable parameters in order of registration, the frozen one
// if there is one, and the buffers.
std::vector<NamedTensor> initial_parameters(const Training& c, uint64_t build_seed);
std::vector<NamedTensor> initial_frozen(const Training& c, uint64_t build_seed);
std::vector<NamedTensor> initial_buffers(const Training& c, uint64_t build_seed);

// The samples of `part` of batch `batch`: inputs [n, inputs] and cotangents [n, 1].
at::Tensor inputs(const Training& c, int batch, const Part& part);
at::Tensor cotangents(const Training& c, int batch, const Part& part);

// What a rank multiplies its sum over samples with, so that the average over ranks is the average
// over the batch: the world size over the samples of the batch.
double loss_weight(const Training& c);

// Forward on this rank's part of `batch`, and its loss.
at::Tensor loss_of_part(const Training& c, int batch, int rank, Replica& replica);

// The names of those that a gradient is expected of, in order.
std::vector<std::string> trainable(const Training& c);

// Which branch a trainable parameter is of, by its name.
int branch_of(const std::string& parameter);

// Under the names they have in `model`; gradients of what is trainable, as gradient_or_nothing has
// them.
void record_parameters(RankContext& here, const torch::nn::Module& model);
void record_gradients(RankContext& here, const torch::nn::Module& model);
void record_buffers(RankContext& here, const torch::nn::Module& model);

at::ScalarType dtype_of(const Training& c);

}  // namespace lockstep::scenarios
