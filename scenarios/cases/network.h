// The network of a Training case as a LibTorch module, and the values a case gives it.
#pragma once

#include "harness/rank/rank_context.h"
#include "harness/worlds/subject.h"
#include "scenarios/cases/training.h"

#include <functional>

namespace lockstep::scenarios {

// Bounds of the whole numbers, small so that training stays exact; see docs/numerics.md.
inline constexpr int64_t kParameterMost = 2;
inline constexpr int64_t kInputMost = 3;

class Network : public Model {
 public:
  // Parameters and buffers are drawn from `build_seed`: the state of a rank before replicas are
  // made equal.
  Network(const Training& c, uint64_t build_seed);

  // input: [samples, inputs] -> [samples, 1]. `first_branch` runs first; the sum is always in the
  // order of the branches.
  at::Tensor forward(const at::Tensor& input) override;
  void set_first_branch(int branch) { first_branch_ = branch; }

  // Called as a forward begins, after everything that precedes it.
  std::function<void()> on_entry;

 protected:
  // The term of a branch's output in the sum.
  virtual at::Tensor passed_on(int /*branch*/, const at::Tensor& output) { return output; }

 private:
  std::vector<torch::nn::Sequential> branches_;
  int first_branch_ = 0;
};

struct NamedTensor {
  std::string name;
  at::Tensor value;
};

// The seed from which rank `rank` builds its network before it wraps: each rank has another.
uint64_t build_seed(const Training& c, int rank);

// Names and values at the start: the trainable parameters in order of registration, the frozen one
// if there is one, and the buffers.
std::vector<NamedTensor> initial_parameters(const Training& c, uint64_t build_seed);
std::vector<NamedTensor> initial_frozen(const Training& c, uint64_t build_seed);
std::vector<NamedTensor> initial_buffers(const Training& c, uint64_t build_seed);

// The samples of `part` of batch `batch`: inputs [n, inputs] and cotangents [n, 1].
at::Tensor inputs(const Training& c, int batch, const Part& part);
at::Tensor cotangents(const Training& c, int batch, const Part& part);

// The factor of a rank's sum over its samples that makes the average over ranks the average over
// the batch: the world size over the samples of the batch.
double loss_weight(const Training& c);

// Forward on this rank's part of `batch`, and its loss.
at::Tensor loss_of_part(const Training& c, int batch, int rank, Replica& replica);

// The names of the trainable parameters, in order.
std::vector<std::string> trainable(const Training& c);

// The branch of a trainable parameter, from its name.
int branch_of(const std::string& parameter);

// Records under the names in `model`; gradients of trainable parameters by gradient_or_nothing.
void record_parameters(RankContext& here, const torch::nn::Module& model);
void record_gradients(RankContext& here, const torch::nn::Module& model);
void record_buffers(RankContext& here, const torch::nn::Module& model);

at::ScalarType dtype_of(const Training& c);

}  // namespace lockstep::scenarios
