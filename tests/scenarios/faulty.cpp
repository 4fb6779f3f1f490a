#include "tests/scenarios/faulty.h"

#include "harness/world/rank_context.h"

#include <torch/torch.h>

#include <cstdlib>

namespace lockstep::scenarios {

namespace {

class Faulty : public Replica {
 public:
  Faulty(std::shared_ptr<Model> model, Group group, const WrapOptions& options, std::string fault)
      : model_(std::move(model)),
        group_(std::move(group)),
        options_(options),
        fault_(std::move(fault)),
        listed_(model_->buffers()) {
    if (!is("parameters stay as built")) broadcast(model_->parameters());
    if (!is("buffers stay as built")) broadcast(model_->buffers());
    if (is("loads a checkpoint on rank 1")) change_on_rank_one(2.5);
  }

  at::Tensor forward(const at::Tensor& input) override {
    const bool early = !is("broadcasts buffers after forward");
    if (early) synchronise_buffers();
    const auto output = model_->forward(input);
    if (!early) synchronise_buffers();
    const bool local = in_no_sync_ && !is("ignores no_sync");
    forward_is_synchronised_ = torch::GradMode::is_enabled() && !local;
    next_forward_synchronises_ = forward_is_synchronised_;
    return output;
  }

  void backward(const at::Tensor& loss) override {
    const bool reduces =
        is("decides at backward") ? !in_no_sync_ : forward_is_synchronised_ && !is("never reduces");
    if (is("averages the last micro-batch alone") && reduces) return reduce_alone(loss);
    if (is("adds the last micro-batch after reducing") && reduces) reduce();
    loss.backward();
    if (reduces && !is("adds the last micro-batch after reducing")) reduce();
    if (is("prunes on rank 1")) change_on_rank_one(0);
  }

  void no_sync(const std::function<void()>& body) override {
    in_no_sync_ = true;
    body();
    in_no_sync_ = false;
  }

 private:
  bool is(const char* fault) const { return fault_ == fault; }
  int world() const { return group_->getSize(); }

  void broadcast(std::vector<at::Tensor> tensors) {
    torch::NoGradGuard no_grad;
    for (auto& tensor : tensors) {
      c10d::BroadcastOptions options;
      options.rootRank = is("broadcasts from the last rank") ? world() - 1 : 0;
      std::vector<at::Tensor> bytes{tensor.detach().clone().view({-1}).view(at::kByte)};
      group_->broadcast(bytes, options)->wait();
      const at::AutoDispatchBelowADInplaceOrView keeps_versions;
      tensor.copy_(bytes.front().view(tensor.scalar_type()).view(tensor.sizes()));
    }
  }

  void synchronise_buffers() {
    const bool open = next_forward_synchronises_ || is("broadcasts buffers in every forward");
    if (!options_.broadcast_buffers || !open || is("never broadcasts buffers")) return;
    broadcast(is("lists buffers at construction") ? listed_ : model_->buffers());
  }

  double scale(const at::Tensor& gradient) const {
    const double right = 1.0 / world();
    if (is("sums")) return 1;
    if (is("divides twice")) return right / world();
    if (is("divides by elements")) return 1.0 / static_cast<double>(gradient.numel());
    if (is("divides by the world")) return 1.0 / std::atoi(std::getenv("WORLD_SIZE"));
    return right;
  }

  void reduce() {
    for (auto& parameter : model_->parameters()) {
      if (!parameter.requires_grad()) continue;
      auto gradient = parameter.grad().defined() ? parameter.grad() : torch::zeros_like(parameter);
      std::vector<at::Tensor> tensors{gradient * scale(gradient)};
      group_->allreduce(tensors)->wait();
      parameter.mutable_grad() = tensors.front();
      if (is("one rank keeps its own") && group_->getRank() == 1)
        parameter.mutable_grad() = gradient;
    }
  }

  // What had added up before stays as it is on each rank.
  void reduce_alone(const at::Tensor& loss) {
    std::vector<at::Tensor> before;
    for (auto& parameter : model_->parameters()) {
      before.push_back(parameter.grad().defined() ? parameter.grad().clone() : at::Tensor());
      parameter.mutable_grad() = at::Tensor();
    }
    loss.backward();
    reduce();
    auto parameters = model_->parameters();
    for (size_t p = 0; p < before.size(); ++p)
      if (before[p].defined()) parameters[p].mutable_grad() = parameters[p].grad() + before[p];
  }

  void change_on_rank_one(double value) {
    torch::NoGradGuard no_grad;
    if (group_->getRank() == 1) model_->parameters().front().fill_(value);
  }

  const std::shared_ptr<Model> model_;
  const Group group_;
  const WrapOptions options_;
  const std::string fault_;
  const std::vector<at::Tensor> listed_;
  bool in_no_sync_ = false, forward_is_synchronised_ = true, next_forward_synchronises_ = true;
};

}  // namespace

Subject faulty_subject(const std::string& fault) {
  return {.name = fault,
          .wrap = [fault](std::shared_ptr<Model> model, const Group& group,
                          const WrapOptions& options) {
            return std::make_unique<Faulty>(std::move(model), group, options, fault);
          }};
}

}  // namespace lockstep::scenarios
