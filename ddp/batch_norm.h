#pragma once

#include "ddp/sync_batch_norm/over_ranks.h"

#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/pimpl.h>

#include <cstddef>
#include <ostream>

namespace lockstep {

// Replacements for torch::nn::BatchNorm1d, 2d and 3d that convert_sync_batchnorm() can switch to
// the statistics of all ranks' batches. A class that declares a member as LibTorch's own layer
// cannot be converted: its pointer would still point to the old layer. A class that declares one of
// these can.
//
// Until convert_sync_batchnorm() they behave as LibTorch's layers: the same options, defaults,
// names of parameters and buffers and inputs, and the same output bit for bit. After it they still
// do in evaluation, which needs no group.

// The common base of the three. Layer is the derived class.
template <std::size_t D, class Layer>
class BatchNormLayer : public torch::nn::BatchNormImplBase<D, Layer>, public LayerOverRanks {
 public:
  using torch::nn::BatchNormImplBase<D, Layer>::BatchNormImplBase;

  // Local and identical to LibTorch's, whose exceptions it throws, unless the layer was switched
  // and is in training. Then it is Collective, blocks and throws as SyncBatchNorm's forward; an
  // input with a number of axes that the layer does not take is refused on every rank with the same
  // sentence.
  at::Tensor forward(const at::Tensor& input);

  // For convert_sync_batchnorm().
  BatchNormSettings settings() const override;

  // "lockstep::BatchNorm2d(4, eps=1e-05, momentum=0.1, affine=true, track_running_stats=true)",
  // followed by ", over all ranks" if it was switched.
  void pretty_print(std::ostream& stream) const override;

 protected:
  void _check_input_dim(const at::Tensor& input) override;
};

// input: [samples, channels] or [samples, channels, length].
class BatchNorm1dImpl : public BatchNormLayer<1, BatchNorm1dImpl> {
 public:
  using BatchNormLayer<1, BatchNorm1dImpl>::BatchNormLayer;
};

// input: [samples, channels, height, width].
class BatchNorm2dImpl : public BatchNormLayer<2, BatchNorm2dImpl> {
 public:
  using BatchNormLayer<2, BatchNorm2dImpl>::BatchNormLayer;
};

// input: [samples, channels, depth, height, width].
class BatchNorm3dImpl : public BatchNormLayer<3, BatchNorm3dImpl> {
 public:
  using BatchNormLayer<3, BatchNorm3dImpl>::BatchNormLayer;
};

extern template class BatchNormLayer<1, BatchNorm1dImpl>;
extern template class BatchNormLayer<2, BatchNorm2dImpl>;
extern template class BatchNormLayer<3, BatchNorm3dImpl>;

// The handles: BatchNorm2d norm(torch::nn::BatchNorm2dOptions(4).eps(0.5)).
TORCH_MODULE(BatchNorm1d);
TORCH_MODULE(BatchNorm2d);
TORCH_MODULE(BatchNorm3d);

}  // namespace lockstep
