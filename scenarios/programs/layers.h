// The models of a ProgramSpec as LibTorch modules.
#pragma once

#include "harness/base/values.h"
#include "harness/worlds/subject.h"
#include "scenarios/programs/case.h"

#include <optional>
#include <stdexcept>

namespace lockstep::scenarios::programs {

// How the next forward goes.
struct Call {
  uint32_t left_out = 0;  // bit l: without layer l
  bool uses_first = true;
  size_t first_layer = 0;
  bool throws = false;  // at its end
};

// The exception of a forward that is to throw.
struct PlannedException : std::runtime_error {
  using runtime_error::runtime_error;
};

struct Named {
  std::string name;
  at::Tensor value;
};

class LayeredModel : public Model {
 public:
  // Parameters and buffers are drawn from `build_seed`. With `dtype` all parameters are of that
  // one.
  LayeredModel(const ProgramSpec& c, int model, uint64_t build_seed,
               std::optional<at::ScalarType> dtype = {});

  Call call;

  // `input`: input_count() numbers, float64. Returns one number, float64: the sum over the layers;
  // outputs() returns the parts of that sum and, where the case says so, the first parameter.
  // In training every buffer grows by input_sum(input).
  at::Tensor forward(const at::Tensor& input) override;
  std::vector<at::Tensor> outputs(const at::Tensor& input) override;
  int64_t input_count() const;

  // Weight and bias of a layer, counted cyclically.
  void set_trainable(int layer, bool is_trainable);

  // The options of its replicas: `given`, with the names of layers that do not travel with others.
  WrapOptions options(WrapOptions given) const;

  // True if this parameter's gradients are sparse.
  bool is_sparse(const at::Tensor& parameter) const;

  // Each parameter once; of a shared one the first name.
  std::vector<Named> distinct_parameters() const;
  const at::Tensor& first() const { return first_; }
  // The weights of layers that are squared and of none that is recomputed, whose gradients autograd
  // does not differentiate. A shared one comes several times.
  std::vector<at::Tensor> squared_weights() const;

 private:
  struct Layer {
    LayerSpec spec;
    at::Tensor weight, bias;
    std::string weight_name, bias_name;
    bool delays = false;  // it can, for all of it is trainable
  };
  class Cutter;
  at::Tensor run(const Layer& layer, Cutter& inputs) const;
  at::Tensor drawn(at::IntArrayRef shape, at::ScalarType dtype);
  at::Tensor drawn_weight(const LayerSpec& spec);
  void add(const LayerSpec& spec, size_t number);

  const std::optional<at::ScalarType> dtype_;
  const size_t output_count_;
  const bool returns_first_;
  Counter next_value_;
  at::Tensor first_;
  std::vector<Layer> layers_;
  std::vector<BufferKind> buffer_kinds_;
  std::vector<std::string> ignored_buffers_;
  std::vector<at::Tensor> buffers_;
};

// The numbers of a tensor: itself, or the parts of complex ones in a last axis of two. Shares
// memory with it.
at::Tensor numbers_of(const at::Tensor& tensor);

// The initial value of a buffer with these words.
int64_t initial_buffer(uint64_t build_seed, size_t number);

// A whole number from 1 to 3 that a forward with this input adds to each buffer.
int64_t added_to_buffers(const at::Tensor& input);

}  // namespace lockstep::scenarios::programs
