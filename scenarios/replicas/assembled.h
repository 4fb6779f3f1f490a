// The model of a Differing case, as one rank builds it, and what training leaves in it.
#pragma once

#include "harness/rank/rank_context.h"
#include "harness/worlds/subject.h"
#include "scenarios/replicas/differing.h"

namespace lockstep::scenarios::replicas {

// Tensors that have values take part in forward: the sum of each times its coefficient, which the
// input holds by place. So the gradient of a tensor is its coefficient, everywhere.
class Assembled : public Model {
 public:
  Assembled(const Given& given, const RankContext& here);

  // It is made where it is to be: moving makes whole what is expanded, and cannot move what has no
  // values.
  using Model::to;
  void to(at::Device, bool /*non_blocking*/) override {}

  at::Tensor forward(const at::Tensor& coefficients) override;

  // For each name of `names` one record: the value, or the gradient; of no elements where there is
  // none.
  void record_values(RankContext& here, const std::vector<std::string>& names) const;
  void record_gradients(RankContext& here, const std::vector<std::string>& names) const;

 private:
  struct Part {
    GivenTensor given;
    at::Tensor tensor;
    std::shared_ptr<torch::nn::EmbeddingImpl> embedding;
  };
  const Part* find(const std::string& name) const;
  std::vector<Part> parts_;
};

// One for each place. `step` from 0.
std::vector<int64_t> coefficients(const Differing& c, int rank, int step);

// The number that fills a tensor before replicas are made equal.
int64_t initial_value(const GivenTensor& tensor, int rank);

std::vector<std::string> names_of(const Given& given);

}  // namespace lockstep::scenarios::replicas
