#pragma once

#include "ddp/batch_norm/over_ranks.h"

#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/pimpl.h>

#include <cstddef>
#include <ostream>

namespace lockstep {

// torch::nn::BatchNorm1d, 2d and 3d that convert_sync_batchnorm() can switch to the statistics of
// all ranks' batches. A class whose member is declared as LibTorch's own layer cannot be converted:
// its pointer would go on naming the old layer. With one of these in its place it can.
//
// Options, defaults, names of parameters and buffers, what forward takes and returns, and every bit
// of it are those of LibTorch's layer, until convert_sync_batchnorm(); afterwards they are so in
// evaluation. There they need no group.

// What the three have in common. Layer is the class derived from it.
template <std::size_t D, class Layer>
class BatchNormLayer : public torch::nn::BatchNormImplBase<D, Layer>, public LayerOverRanks {
 public:
  using torch::nn::BatchNormImplBase<D, Layer>::BatchNormImplBase;

  // Local, and as LibTorch's, whose exceptions it throws. But where it was switched and is in
  // training: Collective, blocks, as SyncBatchNorm's forward, which says what it throws; an input
  // with a number of axes that the layer does not take is refused on every rank, by one sentence.
  at::Tensor forward(const at::Tensor& input);

  // For convert_sync_batchnorm().
  BatchNormSettings settings() const override;

  // "lockstep::BatchNorm2d(4, eps=1e-05, momentum=0.1, affine=true, track_running_stats=true)",
  // and ", over all ranks" behind it where it was switched.
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
