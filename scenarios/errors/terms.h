// The model of an Erring case: a term for each parameter.
#pragma once

#include "harness/worlds/subject.h"
#include "scenarios/errors/case.h"

#include <functional>

namespace lockstep::scenarios::errors {

// As a replica's buckets name it.
inline constexpr const char* kEmbeddingWeight = "embedding.weight";

class Terms : public Model {
 public:
  // How one parameter takes part in the next forward.
  struct Part {
    bool is_used = true;
    bool is_cut = false;                          // its gradient is undefined
    bool is_sparse = false;                       // its gradient is sparse
    std::function<void()> in_forward = nullptr;   // called as its term is computed
    std::function<void()> in_backward = nullptr;  // called as its gradient is computed
  };

  Terms(const Erring& c, int rank);

  // By parameter.
  std::vector<Part> parts;

  at::Tensor& parameter(size_t index) { return parameters_[index]; }

  // Registers parameter "late", which is frozen and takes no part; once.
  void register_late();
  void register_early();  // likewise

  // Registers module "late_part", of a parameter or of a buffer alone, which takes no part; and
  // takes it away again.
  void register_late_part(bool of_buffer);
  void drop_late_part() { unregister_module("late_part"); }

  // Gives the buffer another dtype.
  void convert_buffer(at::ScalarType dtype) { count_.set_data(count_.to(dtype)); }

  // coefficients: one for each parameter. The outputs are the terms, zeros for those that are not
  // used, and one more: of the embedding, or with a graph without parameters, so that every pass
  // has one.
  std::vector<at::Tensor> outputs(const at::Tensor& coefficients) override;
  at::Tensor forward(const at::Tensor& coefficients) override;

 private:
  at::Tensor term(size_t index, const at::Tensor& coefficient);
  std::vector<at::Tensor> parameters_;
  at::Tensor late_;
  torch::nn::Embedding embedding_{nullptr};
  const int64_t row_;  // of it, which this rank uses
  at::Tensor count_;   // of forwards
  const std::vector<size_t> order_;
};

}  // namespace lockstep::scenarios::errors
