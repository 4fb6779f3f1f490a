#include "scenarios/collectives/arguments.h"

#include "harness/worlds/subject.h"
#include "scenarios/collectives/refused_arguments.h"
#include "scenarios/collectives/state_arguments.h"

#include <torch/torch.h>

#include <memory>
#include <utility>

namespace lockstep::scenarios::collectives {

namespace {

using torch::optim::OptimizerParamGroup;

// A program's own collective, with one argument changed.
Act own(RankContext& here, CollectiveKind kind,
        const std::function<void(ProgramCollective&)>& change) {
  return [&here, kind, change](bool has_another) {
    ProgramCollective call{.kind = kind, .tensor = numbers(2), .parts = {}};
    if (has_another) change(call);
    for (int part = 0;
         call.kind == CollectiveKind::scatter && call.root == here.rank() && part < here.size();
         ++part)
      call.parts.push_back(at::ones_like(call.tensor));
    collective(here, call);
  };
}

// A scatter, to which a rank gives one part too few as the source, or any as another rank.
Act scattered(RankContext& here, int source) {
  return [&here, source](bool has_another) {
    const bool is_source = here.rank() == source;
    const int count = has_another ? here.size() - 1 : is_source ? here.size() : 0;
    const std::vector<at::Tensor> parts(static_cast<size_t>(count), numbers(2));
    collective(
        here,
        {.kind = CollectiveKind::scatter, .tensor = numbers(2), .root = source, .parts = parts});
  };
}

// A scatter whose source gives one of its parts another shape.
Act scattered_unlike(RankContext& here, int source, int part) {
  return [&here, source, part](bool has_another) {
    std::vector<at::Tensor> parts(static_cast<size_t>(here.rank() == source ? here.size() : 0),
                                  numbers(2));
    if (has_another) parts[static_cast<size_t>(part)] = numbers(3);
    collective(
        here,
        {.kind = CollectiveKind::scatter, .tensor = numbers(2), .root = source, .parts = parts});
  };
}

torch::optim::SGDOptions sgd_options(double rate) {
  return torch::optim::SGDOptions(rate);
}

std::unique_ptr<ShardedOptimizer> sharded(RankContext& here, const ParamGroups& groups,
                                          bool is_adam = false) {
  return sharded_optimizer(
      here, groups,
      [is_adam](const ParamGroups& of) -> std::unique_ptr<torch::optim::Optimizer> {
        if (is_adam) return std::make_unique<torch::optim::Adam>(of);
        return std::make_unique<torch::optim::SGD>(of, sgd_options(0.5));
      },
      here.group());
}

ParamGroups one_group(int parameters, int64_t elements = 2) {
  std::vector<at::Tensor> all;
  for (int i = 0; i < parameters; ++i) all.push_back(leaf(elements));
  return {OptimizerParamGroup(all)};
}

// The calls of one sharded optimizer after its construction.
Act of_sharded(RankContext& here, const ParamGroups& groups,
               const std::function<void(ShardedOptimizer&, bool has_another)>& call) {
  const std::shared_ptr<ShardedOptimizer> optimizer = sharded(here, groups);
  return [optimizer, call](bool has_another) { call(*optimizer, has_another); };
}

Act with_learning_rate_of(RankContext& here, size_t group) {
  const ParamGroups two{one_group(1).front(), one_group(1).front()};
  return of_sharded(here, two, [group](ShardedOptimizer& optimizer, bool has_another) {
    optimizer.set_learning_rate(group, has_another ? 0.25 : 0.5);
    optimizer.step();
  });
}

Act wrapped(RankContext& here, Argument argument) {
  return [&here, argument](bool has_another) {
    WrapOptions options;
    if (argument == Argument::hook)
      options.hook = HookOptions{.kind = has_another ? HookKind::noop : HookKind::all_reduce};
    if (argument == Argument::pass_of_local_sgd)
      options.local_sgd = LocalSgdOptions{.start = 2, .passes_before = has_another ? 1 : 0};
    if (argument == Argument::place_of_buffer_hook)
      options.buffer_hook = has_another ? "after_forward" : "before_forward";
    wrap(here, std::make_shared<Multiplied>(), options);
  };
}

// The calls of one replica after its construction.
Act of_replica(RankContext& here,
               const std::function<void(Replica&, const Model&, bool has_another)>& call) {
  const auto model = std::make_shared<Multiplied>();
  const std::shared_ptr<Replica> replica = wrap(here, model, {});
  return [model, replica, call](bool has_another) { call(*replica, *model, has_another); };
}

Act joined(RankContext& here, JoinKind otherwise) {
  return of_replica(here, [otherwise](Replica& replica, const Model&, bool has_another) {
    replica.join(has_another ? otherwise : JoinKind::world, [] {});
  });
}

Act normalised(RankContext& here, const std::function<void(NormOptions&)>& change) {
  return [&here, change](bool has_another) {
    NormOptions options{.channels = 2};
    if (has_another) change(options);
    const auto layer = lockstep::sync_batch_norm(here, options);
    layer->forward(torch::ones({2, options.channels}));
  };
}

// A rank's other group is one of itself alone.
Act wrapped_layer(RankContext& here) {
  const auto layer_over = [](RankContext& of, const Group& group) {
    return lockstep::sync_batch_norm(of, {.channels = 2}, group);
  };
  const auto alone = layer_over(here, here.group_of({here.rank()}));
  return [&here, layer_over, alone](bool has_another) {
    wrap(here, has_another ? alone : layer_over(here, here.group()), {});
  };
}

}  // namespace

Act call_of(const Disagreeing& c, RankContext& here) {
  if (const auto found = refused(c)) return found->prepare(here);
  using enum Argument;
  using enum CollectiveKind;
  const auto set_root = [](ProgramCollective& call) { call.root = 1; };
  const auto set_dtype = [](ProgramCollective& call) { call.tensor = numbers(2, at::kFloat); };
  const auto set_shape = [](ProgramCollective& call) { call.tensor = numbers(3); };
  const auto set_reduction = [](ProgramCollective& call) { call.reduction = ReductionKind::max; };
  switch (c.argument) {
    case collective:
      return own(here, all_reduce, [](auto& call) { call.kind = barrier; });
    case dtype:
      return own(here, all_reduce, set_dtype);
    case shape:
      return own(here, all_reduce, set_shape);
    case reduction:
      return own(here, all_reduce, set_reduction);
    case destination:
      return own(here, reduce, set_root);
    case source:
      return own(here, broadcast, set_root);
    case gathered_dtype:
      return own(here, all_gather, set_dtype);
    case destination_of_gather:
      return own(here, gather, set_root);
    case source_of_scatter:
      return own(here, scatter, set_root);
    case reduction_of_reduce:
      return own(here, reduce, set_reduction);
    case shape_of_reduce:
      return own(here, reduce, set_shape);
    case shape_of_broadcast:
      return own(here, broadcast, set_shape);
    case gathered_shape:
      return own(here, all_gather, set_shape);
    case shape_of_gather:
      return own(here, gather, set_shape);
    case shape_of_scatter:
      return own(here, scatter, set_shape);
    case no_elements:
      return own(here, all_reduce, [](auto& call) { call.tensor = numbers(0); });
    case ranks_of_new_group:
      return [&here](bool has_another) {
        lockstep::collective(here, {.kind = barrier,
                                    .tensor = numbers(1),
                                    .parts = {},
                                    .ranks = has_another ? std::vector{1} : std::vector{0}});
      };
    case parts_beside_the_source:
      return scattered(here, (c.rank + 1) % c.world.size);
    case parts_of_the_source:
      return scattered(here, c.rank % c.world.size);
    case period:
      return averaged(here, [](auto& options) { options.levels.back().period = 2; });
    case warmup_steps:
      return averaged(here, [](auto& options) { options.warmup_steps = 1; });
    case levels:
      return [&here](bool has_another) {
        averaged_sgd(here, {leaf(2)},
                     {.is_hierarchical = true,
                      .levels = {{.period = has_another ? 2 : 1, .size = here.size()}}});
      };
    case Argument::averaged_gradient:
      return collectives::averaged_gradient(here);
    case averaged_shape:
      return averaged_parameters(here, 1, 3);
    case count_of_averaged:
      return averaged_parameters(here, 2, 2);
    case Argument::step_of_average:
      return collectives::step_of_average(here);
    case groups:
      return [&here](bool has_another) {
        auto all = one_group(1);
        if (has_another) all.push_back(one_group(1).front());
        sharded(here, all);
      };
    case parameters_of_group:
      return [&here](bool has_another) { sharded(here, one_group(has_another ? 2 : 1)); };
    case Argument::parameter:
      return [&here](bool has_another) { sharded(here, one_group(1, has_another ? 3 : 2)); };
    case class_of_optimizer:
      return [&here](bool has_another) { sharded(here, one_group(1), has_another); };
    case learning_rate:
      return with_learning_rate_of(here, 0);
    case learning_rate_of_last_group:
      return with_learning_rate_of(here, 1);
    case added_group:
      return of_sharded(here, one_group(2), [](ShardedOptimizer& optimizer, bool has_another) {
        optimizer.add_group(one_group(has_another ? 2 : 1).front());
      });
    case receiver_of_state:
      return of_sharded(here, one_group(2), [](ShardedOptimizer& optimizer, bool has_another) {
        optimizer.save(has_another ? 1 : 0);
      });
    case parts:
    case epoch:
    case step:
    case seed_of_sampler:
    case position_of_sampler:
    case keep_last:
    case is_best:
    case generators:
      return saved(here, c.argument);
    case loaded_parts:
    case loaded_file:
      return loaded(here, c.argument);
    case hook:
    case pass_of_local_sgd:
    case place_of_buffer_hook:
      return wrapped(here, c.argument);
    case optimizer_in_backward:
      return of_replica(here, [](Replica& replica, const Model& model, bool has_another) {
        if (has_another)
          replica.step_in_backward(std::make_shared<torch::optim::Adam>(model.parameters()));
        else
          replica.step_in_backward(
              std::make_shared<torch::optim::SGD>(model.parameters(), sgd_options(0.5)));
      });
    case divisor_of_join:
      return joined(here, JoinKind::live);
    case throw_of_join:
      return joined(here, JoinKind::throws);
    case joinables: {
      const std::shared_ptr<ShardedOptimizer> optimizer = sharded(here, one_group(1));
      return of_replica(here, [optimizer](Replica& replica, const Model&, bool has_another) {
        std::vector<ShardedOptimizer*> all;
        if (has_another) all.push_back(optimizer.get());
        replica.join(
            JoinKind::world, [] {}, all);
      });
    }
    case features:
      return normalised(here, [](auto& options) { options.channels = 3; });
    case eps:
      return normalised(here, [](auto& options) { options.eps_log2 = -3; });
    case momentum:
      return normalised(here, [](auto& options) { options.momentum_log2 = -1; });
    case affine:
      return normalised(here, [](auto& options) { options.affine = false; });
    case track_running_stats:
      return normalised(here, [](auto& options) { options.track_running_stats = false; });
    case group_of_layer:
      return wrapped_layer(here);
    case shape_of_first_part:
      return scattered_unlike(here, c.rank % c.world.size, 0);
    case shape_of_last_part:
      return scattered_unlike(here, c.rank % c.world.size, c.world.size - 1);
    case compared_parts:
    case compared_rate:
    case compared_state:
    case compared_length:
    case compared_epoch:
      return compared(here, c.argument);
    default:
      break;
  }
  throw std::logic_error("no such argument");
}

}  // namespace lockstep::scenarios::collectives
