#pragma once

#include "ddp/bucket_plan.h"
#include "ddp/consistency/named_tensor.h"

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

// The parameters that a reducer averages, by index, as they were given, and the frozen ones beside
// them. Everything is Local.
class Parameters {
 public:
  // `trainable`: at least one parameter, equal on all ranks. `frozen` parameters are only checked.
  Parameters(std::vector<TrainableParameter> trainable, std::vector<NamedTensor> frozen);

  std::size_t count() const { return tensors_.size(); }
  const at::Tensor& operator[](std::size_t index) const { return tensors_[index]; }
  const std::vector<at::Tensor>& tensors() const { return tensors_; }
  const std::vector<GradientSize>& sizes() const { return sizes_; }

  // The device on which it was given.
  const c10::Device& device(std::size_t index) const { return shapes_[index].device; }

  const std::string& name(std::size_t index) const { return names_[index]; }
  // "'a', 'b'".
  std::string names_of(const std::vector<std::size_t>& indices) const;

  // The first change since they were given: of memory ("parameter 'w' was converted ..."), or of
  // which of them require a gradient.
  std::optional<std::string> changed_tensor() const;
  std::optional<std::string> changed_requires_grad() const;

 private:
  struct Shape {
    std::vector<std::int64_t> sizes, strides;
    c10::Device device;
    at::ScalarType dtype;
  };

  std::vector<at::Tensor> tensors_;
  std::vector<std::string> names_;
  std::vector<GradientSize> sizes_;
  std::vector<Shape> shapes_;
  std::vector<NamedTensor> frozen_;
};

}  // namespace lockstep
