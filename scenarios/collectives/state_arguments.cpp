#include "scenarios/collectives/state_arguments.h"

#include <torch/torch.h>

#include <memory>
#include <utility>

namespace lockstep::scenarios::collectives {

at::Tensor numbers(int64_t count, at::ScalarType dtype) {
  return torch::ones({count}, dtype);
}

at::Tensor leaf(int64_t count) {
  return numbers(count).set_requires_grad(true);
}

Act averaged(RankContext& here, const std::function<void(AveragingOptions&)>& change) {
  return [&here, change](bool has_another) {
    AveragingOptions options{.levels = {{.period = 1, .size = here.size()}}};
    if (has_another) change(options);
    averaged_sgd(here, {leaf(2)}, options);
  };
}

Act averaged_gradient(RankContext& here) {
  const auto of_rank = numbers(2).fill_(here.rank()).set_requires_grad(true);
  const std::shared_ptr<AveragedSgd> optimizer =
      averaged_sgd(here, {of_rank}, {.levels = {{.period = 2, .size = here.size()}}});
  return [&here, of_rank, optimizer](bool has_another) {
    of_rank.mutable_grad() = has_another ? at::Tensor() : at::zeros_like(of_rank);
    optimizer->step();
    here.record("average", of_rank.detach());
  };
}

Act averaged_parameters(RankContext& here, int count_of_another, int64_t elements_of_another) {
  return [&here, count_of_another, elements_of_another](bool has_another) {
    std::vector<at::Tensor> all;
    for (int p = 0; p < (has_another ? count_of_another : 1); ++p) {
      all.push_back(leaf(has_another ? elements_of_another : 2));
      all.back().mutable_grad() = at::zeros_like(all.back());
    }
    averaged_sgd(here, all, {.levels = {{.period = 1, .size = here.size()}}})->step();
  };
}

Act step_of_average(RankContext& here) {
  const auto parameter = leaf(2);
  parameter.mutable_grad() = at::zeros_like(parameter);
  const std::shared_ptr<AveragedSgd> optimizer =
      averaged_sgd(here, {parameter}, {.levels = {{.period = 2, .size = here.size()}}});
  const auto at_first = optimizer->save();
  for (int step = 0; step < 2; ++step) optimizer->step();
  const auto behind_two = optimizer->save();
  return [parameter, optimizer, at_first, behind_two](bool has_another) {
    optimizer->load(has_another ? behind_two : at_first);
    optimizer->step();
  };
}

std::string path_of_checkpoint(RankContext& here) {
  if (here.rank() == 0) here.store()->set("folder", here.scratch().string());
  return here.store()->get_to_str("folder") + "/checkpoint.pt";
}

namespace {

std::vector<at::Generator> generators_of_cpu(int count) {
  return std::vector<at::Generator>(static_cast<size_t>(count),
                                    at::globalContext().defaultGenerator(at::kCPU));
}

}  // namespace

Act saved(RankContext& here, Argument argument) {
  const auto path = path_of_checkpoint(here);
  return [&here, argument, path](bool has_another) {
    const auto is = [&](Argument which) { return has_another && argument == which; };
    Multiplied model;
    int64_t epoch = is(Argument::epoch) ? 3 : 2, step = is(Argument::step) ? 5 : 4;
    const auto sampler =
        shard(here, {.length = 4, .shuffle = true, .seed = is(Argument::seed_of_sampler) ? 1 : 0});
    if (is(Argument::position_of_sampler)) sampler->next(1);
    checkpoints(here).save(
        path, here.group(),
        {.model = is(Argument::parts) ? nullptr : &model,
         .sampler = sampler.get(),
         .epoch = &epoch,
         .step = &step,
         .generators = generators_of_cpu(is(Argument::generators)           ? 2
                                         : argument == Argument::generators ? 1
                                                                            : 0)},
        {.keep_last = is(Argument::keep_last) ? 2 : 1, .is_best = is(Argument::is_best)}, {});
  };
}

Act compared(RankContext& here, Argument argument) {
  return [&here, argument](bool has_another) {
    const auto is = [&](Argument which) { return has_another && argument == which; };
    const auto first = leaf(2), last = leaf(2);
    using torch::optim::SGDOptions;
    torch::optim::SGD optimizer({first}, SGDOptions(0.5).momentum(0.5));
    const double rate = is(Argument::compared_rate) ? 0.25 : 0.5;
    optimizer.add_param_group(torch::optim::OptimizerParamGroup(
        {last}, std::make_unique<SGDOptions>(SGDOptions(rate).momentum(0.5))));
    first.mutable_grad() = at::ones_like(first);
    last.mutable_grad() = at::full_like(last, is(Argument::compared_state) ? 2 : 1);
    optimizer.step();
    const auto sampler = shard(here, {.length = is(Argument::compared_length) ? 5 : 4});
    sampler->set_epoch(is(Argument::compared_epoch) ? 3 : 2);
    check_equal(here, {.optimizer = &optimizer,
                       .sampler = is(Argument::compared_parts) ? nullptr : sampler.get(),
                       .generators = {}});
  };
}

Act loaded(RankContext& here, Argument argument) {
  const auto path = path_of_checkpoint(here);
  int64_t first = 1, second = 2;
  for (const auto& [suffix, step] : {std::pair("", &first), std::pair(".other", &second)})
    checkpoints(here).save(path + suffix, here.group(),
                           {.epoch = step, .step = step, .generators = {}}, {}, {});
  return [&here, argument, path](bool has_another) {
    const auto is = [&](Argument which) { return has_another && argument == which; };
    int64_t epoch = 0, step = 0;
    checkpoints(here).load(
        path + (is(Argument::loaded_file) ? ".other" : ""), here.group(),
        {.epoch = is(Argument::loaded_parts) ? nullptr : &epoch, .step = &step, .generators = {}},
        {});
  };
}

}  // namespace lockstep::scenarios::collectives
