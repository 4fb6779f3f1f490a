#pragma once

#include "ddp/sync_batch_norm/over_ranks.h"

#include <torch/nn/module.h>
#include <torch/nn/modules/batchnorm.h>

#include <cstddef>
#include <optional>
#include <string>

namespace lockstep {

// The options and tensors of one of LibTorch's layers. Everything is Local.
struct BatchNormParts {
  std::size_t dimension = 0;  // 1 for BatchNorm1d, ...
  BatchNormSettings settings;
  BatchNormTensors tensors;
};

// The current options and tensors; LibTorch, too, reads eps and momentum in each forward.
template <std::size_t D, class Layer>
BatchNormParts parts_of(const torch::nn::BatchNormImplBase<D, Layer>& layer) {
  // BatchNorm1d takes [samples, channels] and [samples, channels, length].
  return {.dimension = D,
          .settings = {.num_features = layer.options.num_features(),
                       .eps = layer.options.eps(),
                       .momentum = layer.options.momentum(),
                       .affine = layer.weight.defined(),
                       .track_running_stats = layer.running_mean.defined(),
                       .axes_min = D == 1 ? 2 : D + 2,
                       .axes_max = D + 2,
                       .layer = "BatchNorm" + std::to_string(D) + "d"},
          .tensors = {layer.weight, layer.bias, layer.running_mean, layer.running_var,
                      layer.num_batches_tracked}};
}

// The parts of a torch::nn::BatchNorm1d, 2d or 3d; nullopt for any other module, also of a class
// derived from these, whose forward may differ.
std::optional<BatchNormParts> parts_of(const torch::nn::Module& module);

}  // namespace lockstep
