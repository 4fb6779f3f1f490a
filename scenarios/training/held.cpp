#include "scenarios/training/held.h"

#include "harness/rank/tensors.h"
#include "scenarios/averaging/divided.h"
#include "scenarios/cases/tensors.h"

#include <torch/torch.h>

namespace lockstep::scenarios::training {

namespace {

at::Tensor average(const std::vector<at::Tensor>& by_rank) {
  return at::stack(by_rank).mean(0);
}

// The part of a batch that is for parameter p.
at::Tensor part_of(const Loop& c, const at::Tensor& batch, size_t p) {
  int64_t offset = 0;
  for (size_t before = 0; before < p; ++before) offset += size_of(c, before);
  return batch.narrow(0, offset, size_of(c, p));
}

// A rank of a case whose backwards step, as `stepped_inside_no_sync` has it.
struct SteppingRank {
  SteppingRank(const Loop& c, int rank) : c(c), rank(rank), model(c, 0) {
    optimizer = averaging::made(
        c.optimizer,
        averaging::param_groups(c.optimizer, model.parameters(), group_count(c), c.settings));
    if (c.schedule == RateSchedule::warmup)
      for (auto& group : optimizer->param_groups())
        group.options().set_lr(group.options().get_lr() / c.steps);
  }

  void backward(int micro_batch) { (model.forward(batch_of(c, 0, micro_batch, rank))).backward(); }

  void step() {
    optimizer->step();
    optimizer->zero_grad();
  }

  const Loop& c;
  const int rank;
  Fed model;
  std::unique_ptr<torch::optim::Optimizer> optimizer;
};

std::vector<at::Tensor> after_step_0(const Loop& c, size_t p) {
  std::vector<std::unique_ptr<SteppingRank>> ranks;
  for (int rank = 0; rank < c.world.size; ++rank) {
    ranks.push_back(std::make_unique<SteppingRank>(c, rank));
    for (int m = 0; m + 1 < c.micro_batches; ++m) {
      ranks.back()->backward(m);
      ranks.back()->step();
    }
    ranks.back()->backward(c.micro_batches - 1);
  }
  for (size_t each = 0; each < parameter_count(c); ++each) {
    std::vector<at::Tensor> gradients;
    for (const auto& rank : ranks) gradients.push_back(rank->model.parameters()[each].grad());
    const auto shared = average(gradients);
    for (const auto& rank : ranks) rank->model.parameters()[each].mutable_grad().copy_(shared);
  }
  std::vector<at::Tensor> out;
  for (const auto& rank : ranks) {
    rank->step();
    out.push_back(rank->model.parameters()[p].detach());
  }
  return out;
}

}  // namespace

TensorValue average_from(const Loop& c, int step, size_t p, const std::vector<TensorValue>& held,
                         const std::vector<double>& scales) {
  std::vector<at::Tensor> gradients;
  for (size_t rank = 0; rank < held.size(); ++rank) {
    const auto own = own_part(c, torch::tensor(as_doubles(held[rank]), at::kDouble));
    auto sum = at::zeros_like(own);
    for (int m = 0; m < c.micro_batches; ++m)
      sum = sum + part_of(c, batch_of(c, step, m, static_cast<int>(rank)), p) + own;
    gradients.push_back(sum * scales[rank]);
  }
  return recorded(average(gradients), dtype_of(c, p));
}

Explanation stepped_inside_no_sync(const Loop& c, size_t p) {
  return [&c, p](const Difference& is) -> std::optional<Diagnosis> {
    std::vector<TensorValue> held;
    for (const auto& value : after_step_0(c, p)) held.push_back(recorded(value, dtype_of(c, p)));
    return recorded_instead(
        {"stepped_inside_no_sync",
         "what it is where each rank updates it by its own gradient inside no_sync, too"},
        held)(is);
  };
}

}  // namespace lockstep::scenarios::training
