#include "ddp/sync_batch_norm/parts.h"

#include <typeinfo>

namespace lockstep {

namespace {

template <class Layer>
void look_for(const torch::nn::Module& module, std::optional<BatchNormParts>& found) {
  if (typeid(module) == typeid(Layer)) found = parts_of(dynamic_cast<const Layer&>(module));
}

}  // namespace

std::optional<BatchNormParts> parts_of(const torch::nn::Module& module) {
  std::optional<BatchNormParts> found;
  look_for<torch::nn::BatchNorm1dImpl>(module, found);
  look_for<torch::nn::BatchNorm2dImpl>(module, found);
  look_for<torch::nn::BatchNorm3dImpl>(module, found);
  return found;
}

}  // namespace lockstep
