#include "ddp/batch_norm.h"

#include "ddp/sync_batch_norm/parts.h"

#include <sstream>
#include <string>

namespace lockstep {

template <std::size_t D, class Layer>
at::Tensor BatchNormLayer<D, Layer>::forward(const at::Tensor& input) {
  using Base = torch::nn::BatchNormImplBase<D, Layer>;
  if (!this->is_training() || !over_ranks_) return Base::forward(input);
  const BatchNormParts parts = parts_of<D, Layer>(*this);
  return over_ranks_->forward(input, parts.settings, parts.tensors);
}

template <std::size_t D, class Layer>
BatchNormSettings BatchNormLayer<D, Layer>::settings() const {
  return parts_of<D, Layer>(*this).settings;
}

template <std::size_t D, class Layer>
void BatchNormLayer<D, Layer>::pretty_print(std::ostream& stream) const {
  std::ostringstream theirs;
  torch::nn::BatchNormImplBase<D, Layer>::pretty_print(theirs);
  const std::string text = theirs.str();
  stream << "lockstep" << text.substr(std::string("torch::nn").size());
  if (over_ranks_) stream << ", over all ranks";
}

// The errors are worded as LibTorch's.
template <std::size_t D, class Layer>
void BatchNormLayer<D, Layer>::_check_input_dim(const at::Tensor& input) {
  if constexpr (D == 1) {
    TORCH_CHECK(input.dim() == 2 || input.dim() == 3, "expected 2D or 3D input (got ", input.dim(),
                "D input)");
  } else {
    TORCH_CHECK(input.dim() == D + 2, "expected ", D + 2, "D input (got ", input.dim(), "D input)");
  }
}

template class BatchNormLayer<1, BatchNorm1dImpl>;
template class BatchNormLayer<2, BatchNorm2dImpl>;
template class BatchNormLayer<3, BatchNorm3dImpl>;

}  // namespace lockstep
