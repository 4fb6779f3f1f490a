#pragma once

#include "ddp/batch_norm/over_ranks.h"

#include <torch/nn/module.h>
#include <torch/nn/modules/batchnorm.h>

#include <cstddef>
#include <optional>
#include <string>

namespace lockstep {

// What a layer of LibTorch's kind is made of. Everything is Local.
struct BatchNormParts {
  std::size_t dimension = 0;  // 1 for BatchNorm1d, ...
  BatchNormSettings settings;
  BatchNormTensors tensors;
};

// Options and tensors as they are now; LibTorch reads eps and momentum in each forward, too.
template <std::size_t D, class Layer>
BatchNormParts parts_of(const torch::nn::BatchNormImplBase<D, Layer>& layer) {
  // BatchNorm1d takes [samples, channels] beside [samples, channels, length].
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

// Of a module that is a torch::nn::BatchNorm1d, 2d or 3d and of no class derived from it, which may
// do otherwise in forward.
std::optional<BatchNormParts> parts_of(const torch::nn::Module& module);

}  // namespace lockstep
