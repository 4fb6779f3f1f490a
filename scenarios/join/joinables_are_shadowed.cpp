// A loop over uneven inputs with a sharded optimizer leaves what one process leaves that takes,
// step by step, the batches of the ranks that still have some.
//
// A rank without inputs owns parameters that take later steps too. So it must receive the averages
// of passes that it only shadows, update its own parameters by them, and send them. Gradients
// depend on the parameters, so that an update that is left out, or made by an old gradient, shows
// from then on; a last step, which all ranks make together behind the join, shows what state each
// rank has kept. Beside it the program forms sums over the ranks, which are exact. Gradients are
// whole multiples of all divisors, so that no average rounds. The loop of one process runs on each
// rank beside it, on the same device: what an optimizer's kernels round is no part of the claim.
#include "harness/base/values.h"
#include "harness/cases/generators.h"
#include "harness/rank/rank_context.h"
#include "harness/verdict/compare.h"
#include "harness/verdict/numbers.h"
#include "harness/worlds/subject.h"
#include "scenarios/averaging/divided.h"
#include "scenarios/cases/labels.h"
#include "scenarios/cases/parameters.h"
#include "scenarios/cases/tensors.h"
#include "scenarios/join/joined.h"
#include "scenarios/join/own_sums.h"

#include <torch/torch.h>

#include <algorithm>
#include <map>
#include <numeric>

namespace lockstep::scenarios::join_joinables_are_shadowed {
namespace {

using namespace join;
constexpr const char* kUpdated = "updated";

std::string name_of(size_t p) {
  return "w" + std::to_string(p);
}

at::Tensor start_of(const Joined& c, size_t p) {
  return real_numbers({.seed = c.seed, .stream = Stream::parameter, .index = uint64_t{p} << 32},
                      {c.sizes.empty() ? 1 : c.sizes[p]});
}

using Tensors = std::vector<at::Tensor>;

// forward takes the gradients of all parameters, one after the other.
class Linear : public Model {
 public:
  explicit Linear(const Joined& c) : case_(c) {
    for (size_t p = 0; p < parameter_count(c); ++p)
      weights_.push_back(register_parameter(name_of(p), start_of(c, p)));
  }

  at::Tensor forward(const at::Tensor& input) override { return (flat() * input).sum(); }

  // The gradient of one rank in one step: whole numbers, a multiple of every divisor, of the rank's
  // batch and of the parameters as they are.
  at::Tensor gradient(int step, int rank) const {
    constexpr int64_t kMost = 3;
    int64_t multiple = 1;
    for (int divisor = 2; divisor <= case_.world.size; ++divisor)
      multiple = std::lcm(multiple, divisor);
    const auto values = (flat().detach().cpu() * 4).round().clamp(-kMost, kMost);
    const auto batch = whole_numbers({.seed = case_.seed,
                                      .stream = Stream::input,
                                      .rank = static_cast<uint64_t>(rank),
                                      .step = static_cast<uint64_t>(step)},
                                     kMost, {values.numel()});
    return (batch + values) * static_cast<double>(multiple);
  }

  at::Tensor average(int step) const {
    at::Tensor sum;
    for (int rank = 0; rank < case_.world.size; ++rank) {
      if (!has_input(case_, step, rank)) continue;
      const auto own = gradient(step, rank);
      sum = sum.defined() ? sum + own : own;
    }
    return sum / divisor_in(case_, step);
  }

 private:
  at::Tensor flat() const {
    Tensors rows;
    for (const auto& weight : weights_) rows.push_back(weight.reshape({-1}));
    return at::cat(rows);
  }

  const Joined& case_;
  Tensors weights_;
};

Tensors copies(const Tensors& tensors) {
  Tensors out;
  for (const auto& tensor : tensors) out.push_back(tensor.detach().clone());
  return out;
}

at::Tensor nothing_of(const at::Tensor& tensor) {
  return tensor.reshape({-1}).narrow(0, 0, 0);
}

size_t optimizer_count(const Joined& c) {
  return std::min(static_cast<size_t>(c.optimizers), parameter_count(c));
}

// The param group of each optimizer.
ParamGroups parts_of(const Joined& c, const Tensors& parameters) {
  return averaging::param_groups(c.optimizer, parameters, optimizer_count(c), 0);
}

// By step, what the parameters of one process are after it.
std::vector<Tensors> train_on_one_process(const Joined& c, const c10::Device& device) {
  Linear model(c);
  model.to(device);
  std::vector<std::unique_ptr<torch::optim::Optimizer>> optimizers;
  for (const auto& part : parts_of(c, model.parameters()))
    optimizers.push_back(averaging::made(c.optimizer, {part}));
  std::vector<Tensors> out;
  for (int step = 0; step <= joined_steps(c); ++step) {
    for (const auto& optimizer : optimizers) optimizer->zero_grad();
    model.forward(model.average(step).to(device)).backward();
    for (int i = 0; i < (c.steps_twice ? 2 : 1); ++i)
      for (const auto& optimizer : optimizers) optimizer->step();
    out.push_back(copies(model.parameters()));
  }
  return out;
}

std::string of_one(size_t p) {
  return "one process " + name_of(p);
}

void program(const Joined& c, RankContext& here) {
  const auto one = train_on_one_process(c, here.device());
  const auto model = std::make_shared<Linear>(c);
  const auto replica = wrap(here, model,
                            {.bucket_cap_bytes = c.bucket_cap_bytes,
                             .gradient_as_bucket_view = c.gradient_as_bucket_view,
                             .further = {.check_replicas_every = c.optimizers > 1 ? 1 : 0}});
  std::vector<std::unique_ptr<ShardedOptimizer>> optimizers;
  std::vector<ShardedOptimizer*> joinables;
  const auto make = [&](const ParamGroups& all) { return averaging::made(c.optimizer, all); };
  for (const auto& part : parts_of(c, model->parameters())) {
    optimizers.push_back(sharded_optimizer(here, {part}, make, here.group()));
    joinables.push_back(optimizers.back().get());
  }
  std::vector<std::unique_ptr<OwnSum>> sums;
  std::vector<BesideReplica*> beside;
  for (int i = 0; i < c.own_sums; ++i) {
    sums.push_back(std::make_unique<OwnSum>(here, i));
    beside.push_back(sums.back().get());
  }
  std::map<int, Tensors> updated;  // by step
  const auto train = [&](int step) {
    const bool is_joined = step < joined_steps(c);
    if (is_joined && !sums.empty()) sums.front()->add(step);
    model->zero_grad();
    here.enter(step, "trains");
    replica->backward(replica->forward(model->gradient(step, here.rank())));
    for (int i = 0; i < (c.steps_twice ? 2 : 1); ++i)
      for (const auto& optimizer : optimizers) optimizer->step();
    updated[step] = copies(model->parameters());
    for (size_t i = 1; is_joined && i < sums.size(); ++i) sums[i]->add(step);
  };
  replica->join_beside(
      c.divisor,
      [&] {
        for (int step = 0; step < inputs_of(c, here.rank()); ++step) train(step);
      },
      joinables, beside);
  here.enter(0, kJoined);
  for (const auto& each : sums) each->record();
  train(joined_steps(c));
  // Only now is every rank at every step: one without an input in a step has nothing of it.
  for (int step = 0; step <= joined_steps(c); ++step) {
    here.enter(step, kUpdated);
    for (size_t p = 0; p < parameter_count(c); ++p) {
      const auto& right = one[static_cast<size_t>(step)][p];
      here.record(name_of(p), updated.contains(step) ? updated[step][p] : nothing_of(right));
      here.record(of_one(p), has_input(c, step, here.rank()) ? right : nothing_of(right));
    }
  }
}

// Ranks without an input in a step have no value there, so that the others do not stand out.
Explanation every_rank_with_an_input(const Joined& c, int step) {
  std::vector<size_t> with;
  for (int rank = 0; rank < c.world.size; ++rank)
    if (has_input(c, step, rank)) with.push_back(static_cast<size_t>(rank));
  return [with](const Difference& is) -> std::optional<Diagnosis> {
    if (with.size() == is.expected.size() || wrong_ranks(is) != with) return {};
    return Diagnosis{with.size() == 1 ? "one_rank_differs" : "some_ranks_differ",
                     "wrong on every rank that has an input in this step; others have no value",
                     Specificity::which_ranks};
  };
}

Findings equals_one_process(const Joined& c, const History& h) {
  std::vector<Comparison> rows;
  for (int step = 0; step <= joined_steps(c); ++step)
    for (size_t p = 0; p < parameter_count(c); ++p)
      rows.push_back(
          {.row = h.row({step, kUpdated}, name_of(p)),
           .expected = h.row({step, kUpdated}, of_one(p)).by_rank,
           .explanations = [c, step] { return Explanations{every_rank_with_an_input(c, step)}; }});
  return equal("A sharded optimizer in a join must leave what one process leaves", rows);
}

std::vector<Joined> every_small_one() {
  std::vector<Joined> all;
  for (const auto optimizer : {OptimizerKind::sgd, OptimizerKind::momentum, OptimizerKind::adam})
    for (const auto& inputs : std::vector<std::vector<int>>{{2, 0}, {0, 2}, {3, 1}, {2, 2}})
      for (const bool views : {false, true})
        for (const auto divisor : {JoinKind::world, JoinKind::live})
          all.push_back({.world = {.size = 2},
                         .inputs = inputs,
                         .divisor = divisor,
                         .optimizer = optimizer,
                         .own_sums = views ? 2 : 0,
                         .gradient_as_bucket_view = views,
                         .sizes = {3, 2},
                         .seed = 1});
  return all;
}

rc::Gen<Joined> cases() {
  using gen::set;
  using rc::gen::arbitrary;
  using rc::gen::element;
  using rc::gen::inRange;
  return gen::build<Joined>(
      set(&Joined::world, gen::build<WorldSpec>(set(&WorldSpec::size, element(2, 3, 3, 4)))),
      set(&Joined::inputs, gen::lists(2, 4, inRange(0, 5))),
      set(&Joined::divisor, element(JoinKind::world, JoinKind::live, JoinKind::live)),
      set(&Joined::optimizer,
          element(OptimizerKind::sgd, OptimizerKind::momentum, OptimizerKind::adam,
                  OptimizerKind::adam, OptimizerKind::adamw, OptimizerKind::amsgrad,
                  OptimizerKind::rmsprop)),
      set(&Joined::optimizers, element(1, 2, 3)), set(&Joined::steps_twice, arbitrary<bool>()),
      set(&Joined::own_sums, element(0, 0, 1, 2, 3)),
      set(&Joined::gradient_as_bucket_view, arbitrary<bool>()),
      set(&Joined::bucket_cap_bytes, element<int64_t>(0, 1, 64)),
      set(&Joined::sizes, gen::lists(1, 5, inRange(1, 20))),
      set(&Joined::seed, inRange<uint64_t>(0, 1 << 20)));
}

bool is_uneven(const Joined& c) {
  for (int rank = 0; rank < c.world.size; ++rank)
    if (inputs_of(c, rank) != inputs_of(c, 0)) return true;
  return false;
}

}  // namespace

Scenario joinables_are_shadowed() {
  return scenario<Joined>({
      .name = "join.joinables_are_shadowed",
      .claim = "In a join, ranks that are out of inputs go on updating their part of a sharded "
               "optimizer.",
      .in_full =
          "In a join, ranks that are out of inputs go on updating the parameters of a sharded "
          "optimizer that are theirs, so that every step, and the state of the optimizer after "
          "the join, are those of one process; and they shadow what the program itself sends.",
      .exactness = "bit-equal",
      .source = "torch.distributed.algorithms.Join; ZeroRedundancyOptimizer; docs/semantics.md 5.3",
      .not_covered = "errors, several instances",
      .usual_mistake =
          "the optimizer's join hook updates the parameters of a rank without inputs by the "
          "gradients of its own last step, or by none: inside Join take a plain torch.optim "
          "optimizer, and no ZeroRedundancyOptimizer.",
      .tags = {"join", "optimizers"},
      .must_catch = {"join_shadows_the_first_joinable", "shadowed_averages_are_dropped",
                     "shadowed_optimizer_sends_and_does_not_step",
                     "join_ends_for_the_first_joinable", "replicas_are_compared_within_a_join"},
      .draws = 80,
      .start = {.world = {.size = 2}},
      .every = every_small_one,
      .cases = cases(),
      .program = program,
      .checks = {equals_one_process, own_sums_are_shadowed},
      .labels = {{"three ranks and more", 0.5, has_three_ranks<Joined>},
                 {"uneven inputs", 0.4, is_uneven},
                 {"a divisor of those that have inputs", 0.3,
                  [](const Joined& c) { return c.divisor == JoinKind::live; }},
                 {"several sums of the program's own", 0.2,
                  [](const Joined& c) { return c.own_sums > 1; }},
                 {"several optimizers", 0.3,
                  [](const Joined& c) { return optimizer_count(c) > 1; }},
                 {"an optimizer with state", 0.5,
                  [](const Joined& c) { return c.optimizer != OptimizerKind::sgd; }}},
  });
}

}  // namespace lockstep::scenarios::join_joinables_are_shadowed
