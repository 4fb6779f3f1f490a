#include "tests/scenarios/faulty.h"

#include "harness/base/text.h"
#include "harness/rank/rank_context.h"

#include <torch/torch.h>

#include <algorithm>
#include <cstdlib>
#include <map>

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
    samples_ = input.size(0);
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
  bool is(const std::string& fault) const {
    const auto faults = split(fault_, '+');
    return std::find(faults.begin(), faults.end(), fault) != faults.end();
  }
  int world() const { return group_->getSize(); }

  void broadcast(std::vector<at::Tensor> tensors) {
    torch::NoGradGuard no_grad;
    for (auto& tensor : tensors) {
      c10d::BroadcastOptions options;
      options.rootRank = is("broadcasts from the last rank") ? world() - 1
                         : is("broadcasts from rank 1")      ? 1
                                                             : 0;
      std::vector<at::Tensor> bytes{
          tensor.detach().contiguous().clone().view({-1}).view(at::kByte)};
      group_->broadcast(bytes, options)->wait();
      const at::AutoDispatchBelowADInplaceOrView keeps_versions;
      const auto values = bytes.front().view(tensor.scalar_type()).view(tensor.sizes());
      const bool through_doubles = is("sends whole numbers as doubles");
      tensor.copy_(through_doubles ? values.to(at::kDouble) : values);
    }
  }

  void synchronise_buffers() {
    const bool open = next_forward_synchronises_ || is("broadcasts buffers in every forward");
    if (!options_.broadcast_buffers || !open || is("never broadcasts buffers")) return;
    auto buffers = is("lists buffers at construction") ? listed_ : model_->buffers();
    if (is("leaves out whole numbers in forwards"))
      std::erase_if(buffers, [](const at::Tensor& buffer) { return !buffer.is_floating_point(); });
    if (is("averages buffers")) return average(buffers);
    broadcast(buffers);
  }

  void average(const std::vector<at::Tensor>& buffers) {
    const torch::NoGradGuard no_grad;
    for (auto buffer : buffers) buffer.copy_(summed(buffer.to(at::kDouble)) / world());
  }

  double scale(const at::Tensor& gradient) const {
    const double right = 1.0 / world();
    if (is("sums")) return 1;
    if (is("divides twice")) return right / world();
    if (is("divides by elements")) return 1.0 / static_cast<double>(gradient.numel());
    if (is("divides by the world")) return 1.0 / std::atoi(std::getenv("WORLD_SIZE"));
    return right;
  }

  bool is_rank_one() const { return group_->getRank() == 1; }

  at::Tensor summed(const at::Tensor& value) {
    std::vector<at::Tensor> tensors{value.clone()};
    c10d::AllreduceOptions options;
    if (is("takes the largest")) options.reduceOp = c10d::ReduceOp::MAX;
    group_->allreduce(tensors, options)->wait();
    return tensors.front();
  }

  // The tensor that this rank puts into the sum in place of its `gradient`.
  at::Tensor share(size_t place, const at::Tensor& gradient) {
    if (is("rank 1 does not divide") && is_rank_one()) return gradient;
    if (is("leaves rank 1 out of the sum") && is_rank_one()) return torch::zeros_like(gradient);
    const auto right = gradient * scale(gradient);
    if (!is("rank 1 puts in its last bucket") || !is_rank_one()) return right;
    const auto before = buckets_.contains(place) ? buckets_[place] : right;
    buckets_[place] = right;
    return before;
  }

  // The tensor that this rank holds in place of `average`.
  at::Tensor held(size_t place, const at::Tensor& gradient, const at::Tensor& average) {
    if (is("one rank keeps its own") && is_rank_one()) return gradient;
    if (is("adds to the old gradient")) return gradient + average;
    if (is("weighs by its part of the batch")) {
      const auto samples = torch::full({1}, static_cast<double>(samples_));
      return average * (samples * world() / summed(samples)).to(average.scalar_type());
    }
    if (is("counts ranks with samples")) {
      const auto ranks = summed(torch::full({1}, samples_ > 0 ? 1.0 : 0.0));
      return average * (world() / ranks).to(average.scalar_type());
    }
    if (!is("lags a step") && !(is("rank 1 lags a step") && is_rank_one())) return average;
    const auto before = buckets_.contains(place) ? buckets_[place] : average;
    buckets_[place] = average;
    return before;
  }

  void reduce() {
    auto parameters = model_->parameters();
    for (size_t p = 0; p < parameters.size(); ++p) {
      auto& parameter = parameters[p];
      if (!parameter.requires_grad()) continue;
      const auto gradient =
          parameter.grad().defined() ? parameter.grad() : torch::zeros_like(parameter);
      if (is("copies rank 0's gradient")) {
        parameter.mutable_grad() = gradient.clone();
        broadcast({parameter.grad()});
      } else {
        parameter.mutable_grad() = held(p, gradient, summed(share(p, gradient)));
      }
    }
    if (is("leaves no gradient on rank 1") && is_rank_one())
      parameters.front().mutable_grad() = at::Tensor();
  }

  // A gradient accumulated before stays as it is on each rank.
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
  std::map<size_t, at::Tensor> buckets_;  // of the step before, by parameter
  int64_t samples_ = 0;                   // of the last forward
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
