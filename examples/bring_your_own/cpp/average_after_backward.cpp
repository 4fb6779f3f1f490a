// Data-parallel training in its simplest form: rank 0's model at the start, and every gradient
// averaged after backward.
#include "subjects.h"

namespace {

// The class that is judged. It knows nothing of Lockstep.
class AverageAfterBackward {
 public:
  AverageAfterBackward(std::shared_ptr<torch::nn::Module> module, lockstep::Group group)
      : module_(std::move(module)), group_(std::move(group)) {
    const torch::NoGradGuard no_grad;
    for (const auto& parameter : module_->parameters()) send_from_rank_zero(parameter);
    send_buffers();
  }

  void send_buffers() {
    const torch::NoGradGuard no_grad;
    for (const auto& buffer : module_->buffers()) send_from_rank_zero(buffer);
  }

  void finish_gradients() {
    for (auto& parameter : module_->parameters()) {
      if (!parameter.requires_grad()) continue;
      if (!parameter.grad().defined())  // Not used on this rank: the others still wait for it.
        parameter.mutable_grad() = torch::zeros_like(parameter);
      std::vector<at::Tensor> gradient{parameter.grad()};
      gradient.front().div_(group_->getSize());
      group_->allreduce(gradient)->wait();
    }
  }

 private:
  void send_from_rank_zero(const at::Tensor& tensor) {
    const auto sent = tensor.detach().contiguous();
    std::vector<at::Tensor> bytes{sent.flatten().view(torch::kByte)};  // Gloo knows no int16.
    group_->broadcast(bytes)->wait();
    tensor.copy_(sent);
  }

  std::shared_ptr<torch::nn::Module> module_;
  lockstep::Group group_;
};

// How Lockstep calls it.
class Judged final : public lockstep::Replica {
 public:
  Judged(const std::shared_ptr<lockstep::Model>& model, const lockstep::Group& group)
      : model_(model), parallel_(model, group) {}

  at::Tensor forward(const at::Tensor& input) override {
    averages_ = !accumulates_;
    if (averages_ && model_->is_training()) parallel_.send_buffers();
    return model_->forward(input);
  }
  void backward(const at::Tensor& loss) override {
    loss.backward();
    if (averages_) parallel_.finish_gradients();
  }
  void no_sync(const std::function<void()>& steps) override {
    accumulates_ = true;
    steps();
    accumulates_ = false;
  }

 private:
  std::shared_ptr<lockstep::Model> model_;
  AverageAfterBackward parallel_;
  bool accumulates_ = false, averages_ = true;
};

}  // namespace

lockstep::Subject average_after_backward() {
  return {.name = "average_after_backward",
          .wrap = [](std::shared_ptr<lockstep::Model> model, const lockstep::Group& group,
                     const lockstep::WrapOptions& options) -> std::unique_ptr<lockstep::Replica> {
            if (!options.broadcast_buffers || lockstep::has_further(options))
              throw lockstep::Unsupported("the class has no options");
            return std::make_unique<Judged>(model, group);
          }};
}
