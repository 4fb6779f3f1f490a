// Textbook data-parallel training: broadcast every parameter from rank 0 once, and after every
// backward divide and all-reduce each gradient. Nothing is bucketed or overlapped. A reader can
// check this subject by eye, and it has the same properties.
#include "harness/rank/rank_context.h"
#include "harness/worlds/subject.h"
#include "scenarios/subjects/subjects.h"

#include <torch/torch.h>

namespace lockstep {

namespace {

class Averaged : public Replica {
 public:
  Averaged(std::shared_ptr<Model> model, Group group)
      : model_(std::move(model)), group_(std::move(group)) {
    torch::NoGradGuard no_grad;
    for (auto& parameter : model_->parameters()) broadcast_from_rank_zero(parameter);
    for (auto& buffer : model_->buffers()) broadcast_from_rank_zero(buffer);
  }

  at::Tensor forward(const at::Tensor& input) override {
    backward_reduces_ = !in_no_sync_;
    return model_->forward(input);
  }

  void backward(const at::Tensor& loss) override {
    loss.backward();
    if (!backward_reduces_) return;
    for (const auto& parameter : model_->parameters()) {
      if (!parameter.grad().defined()) continue;
      std::vector<at::Tensor> gradient{parameter.grad()};
      gradient.front().mul_(1.0 / group_->getSize());
      group_->allreduce(gradient)->wait();
    }
  }

  void no_sync(const std::function<void()>& body) override {
    in_no_sync_ = true;
    body();
    in_no_sync_ = false;
  }

 private:
  void broadcast_from_rank_zero(at::Tensor& tensor) {
    std::vector<at::Tensor> tensors{tensor};
    group_->broadcast(tensors)->wait();
  }

  std::shared_ptr<Model> model_;
  const Group group_;
  bool in_no_sync_ = false, backward_reduces_ = true;
};

}  // namespace

Subject naive_subject() {
  return {.name = "naive",
          .wrap =
              [](std::shared_ptr<Model> model, const Group& group, const WrapOptions& options) {
                if (has_further(options))
                  throw Unsupported("the textbook's training has no options");
                return std::make_unique<Averaged>(std::move(model), group);
              },
          .shard = nullptr,
          .sync_batch_norm = nullptr};
}

}  // namespace lockstep
