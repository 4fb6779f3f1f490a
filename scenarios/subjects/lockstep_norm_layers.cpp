#include "scenarios/subjects/lockstep_norm_layers.h"

#include "ddp/batch_norm.h"
#include "ddp/convert_sync_batchnorm.h"
#include "ddp/sync_batch_norm.h"

#include <torch/torch.h>

#include <stdexcept>

namespace lockstep {

namespace {

NormLayers::Module layer(int64_t axes, const torch::nn::BatchNormOptions& options) {
  if (axes == 3) return std::make_shared<BatchNorm3dImpl>(options);
  if (axes == 2) return std::make_shared<BatchNorm2dImpl>(options);
  return std::make_shared<BatchNorm1dImpl>(options);
}

template <class... Layers>
at::Tensor forward_of_one(torch::nn::Module& module, const at::Tensor& input) {
  at::Tensor output;
  const auto run = [&](auto* layer) {
    if (layer != nullptr) output = layer->forward(input);
  };
  (run(dynamic_cast<Layers*>(&module)), ...);
  if (!output.defined()) throw std::logic_error("no layer of BatchNorm: " + module.name());
  return output;
}

at::Tensor forward(torch::nn::Module& module, const at::Tensor& input) {
  return forward_of_one<torch::nn::BatchNorm1dImpl, torch::nn::BatchNorm2dImpl,
                        torch::nn::BatchNorm3dImpl, BatchNorm1dImpl, BatchNorm2dImpl,
                        BatchNorm3dImpl, SyncBatchNormImpl>(module, input);
}

}  // namespace

NormLayers lockstep_norm_layers() {
  return {.layer = layer,
          .forward = forward,
          .convert =
              [](const NormLayers::Module& model, const Group& group,
                 std::optional<int64_t> timeout_ms) {
                if (!timeout_ms) return convert_sync_batchnorm(model, group);
                return convert_sync_batchnorm(model, group, std::chrono::milliseconds(*timeout_ms));
              },
          .revert = [](const NormLayers::Module& model) { return revert_sync_batchnorm(model); }};
}

}  // namespace lockstep
