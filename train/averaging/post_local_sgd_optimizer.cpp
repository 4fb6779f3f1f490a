#include "ddp/errors.h"
#include "train/post_local_sgd.h"

#include <torch/torch.h>

#include <utility>

namespace lockstep {

PostLocalSgdOptimizer::PostLocalSgdOptimizer(std::shared_ptr<torch::optim::Optimizer> optimizer,
                                             std::shared_ptr<ModelAverager> averager)
    : optimizer_(std::move(optimizer)), averager_(std::move(averager)) {
  if (!optimizer_) throw UsageError("PostLocalSgdOptimizer: the optimizer is null");
  if (!averager_) throw UsageError("PostLocalSgdOptimizer: the averager is null");
}

at::Tensor PostLocalSgdOptimizer::step(torch::optim::Optimizer::LossClosure closure) {
  at::Tensor loss = optimizer_->step(std::move(closure));
  averager_->average_parameters(*optimizer_);
  return loss;
}

void PostLocalSgdOptimizer::save(torch::serialize::OutputArchive& archive) const {
  optimizer_->save(archive);
  archive.write("step", c10::IValue(averager_->step()));
}

void PostLocalSgdOptimizer::load(torch::serialize::InputArchive& archive) {
  optimizer_->load(archive);
  c10::IValue step(std::int64_t{0});
  if (!archive.try_read("step", step))
    TORCH_WARN("PostLocalSgdOptimizer: the archive has no step, so the averager begins at step 0");
  averager_->set_step(step.toInt());
}

}  // namespace lockstep
