// Training loops of all kinds: optimizers, their steps, and what stands around them.
#include "tests/recorder/small_net.h"

#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace lockstep::testing {

namespace loops {
namespace {

using models::backward;
using models::inputs;
using models::Net;
using models::train;

namespace nn = torch::nn;

template <class Optimizer, class Options>
void train_by(Here& here, Options options) {
  Net net;
  DistributedDataParallel ddp(net, {.process_group = here.group()});
  here.recorder.watch(ddp);
  Optimizer optimizer(ddp->parameters(), options);
  for (int step = 0; step < 3; ++step) {
    const auto loss = here.recorder.step(optimizer, [&] {
      optimizer.zero_grad();
      auto value = ddp.forward(inputs(here, step)).square().mean();
      value.backward();
      return value;
    });
    here.say("loss", {loss});
  }
  here.say("model", *net);
}

void accumulates(Here& here) {
  train(here, {}, [&](auto& ddp, int step) {
    {
      const auto guard = ddp->no_sync();
      ddp.forward(inputs(here, step + 10)).square().mean().backward();
    }
    ddp.forward(inputs(here, step)).square().mean().backward();
  });
}

void averages_by_hand(Here& here) {
  Net net;
  for (const auto& each : net->parameters()) broadcast(here.group(), each.detach());
  here.recorder.watch(net);
  torch::optim::AdamW optimizer(net->parameters());
  for (int step = 0; step < 3; ++step) {
    optimizer.zero_grad();
    net->forward(inputs(here, step)).square().mean().backward();
    for (const auto& each : net->parameters()) all_reduce(here.group(), each.grad(), ReduceOp::AVG);
    here.recorder.step(optimizer);
  }
  here.say("model", *net);
}

void divides_state(Here& here) {
  Net net;
  DistributedDataParallel ddp(net, {.process_group = here.group()});
  here.recorder.watch(ddp);
  ZeroRedundancyOptimizer optimizer(here.group(), ddp->parameters(), [](const auto& groups) {
    return std::make_unique<torch::optim::Adam>(groups, torch::optim::AdamOptions(0.01));
  });
  for (int step = 0; step < 3; ++step) {
    optimizer.zero_grad();
    ddp.forward(inputs(here, step)).square().mean().backward();
    here.recorder.step(optimizer);
  }
  here.say("model", *net);
}

void averages_parameters(Here& here) {
  Net net;
  for (const auto& each : net->parameters()) broadcast(here.group(), each.detach());
  here.recorder.watch(net);
  PostLocalSgdOptimizer optimizer(
      std::make_shared<torch::optim::SGD>(net->parameters(), 0.1),
      std::make_shared<PeriodicModelAverager>(here.group(), PeriodicAveragingOptions{.period = 1}));
  for (int step = 0; step < 3; ++step) {
    optimizer.zero_grad();
    net->forward(inputs(here, step)).square().mean().backward();
    here.recorder.step(optimizer);
  }
  here.say("model", *net);
}

void steps_in_backward(Here& here) {
  Net net;
  DistributedDataParallel ddp(net, {.process_group = here.group()});
  ddp->step_in_backward(std::make_shared<torch::optim::SGD>(ddp->parameters(), 0.1));
  here.recorder.watch(ddp);
  for (int step = 0; step < 3; ++step) ddp.forward(inputs(here, step)).square().mean().backward();
  here.say("model", *net);
}

void trains_a_part_and_then_more(Here& here) {
  Net net;
  net->hidden->weight.set_requires_grad(false);
  DistributedDataParallel ddp(net, {.process_group = here.group()});
  here.recorder.watch(ddp);
  torch::optim::SGD optimizer(net->out->parameters(), 0.1);
  for (int step = 0; step < 4; ++step) {
    if (step == 2) {
      optimizer.add_param_group(torch::optim::OptimizerParamGroup(net->spare->parameters()));
      net->hidden->weight.set_requires_grad(true);
      ddp->update_trainable_parameters();
    }
    net->zero_grad();
    ddp.forward(inputs(here, step)).square().mean().backward();
    here.recorder.step(optimizer);
  }
  here.say("model", *net);
}

void has_an_optimizer_an_epoch(Here& here) {
  Net net;
  DistributedDataParallel ddp(net, {.process_group = here.group()});
  here.recorder.watch(ddp);
  for (int epoch = 0; epoch < 2; ++epoch) {
    const auto optimizer = std::make_unique<torch::optim::Adam>(ddp->parameters());
    for (int step = 0; step < 2; ++step) {
      optimizer->zero_grad();
      ddp.forward(inputs(here, step)).square().mean().backward();
      here.recorder.step(*optimizer);
    }
  }
  here.say("model", *net);
}

void schedules_and_clips(Here& here) {
  Net net;
  DistributedDataParallel ddp(net, {.process_group = here.group()});
  here.recorder.watch(ddp);
  torch::optim::SGD optimizer(ddp->parameters(), 0.1);
  torch::optim::StepLR schedule(optimizer, 2, 0.5);
  for (int step = 0; step < 4; ++step) {
    optimizer.zero_grad();
    ddp.forward(inputs(here, step)).square().mean().backward();
    here.say("norm", {at::tensor(nn::utils::clip_grad_norm_(ddp->parameters(), 0.1))});
    here.recorder.step(optimizer);
    schedule.step();
  }
  here.say("model", *net);
}

void evaluates_between_steps(Here& here) {
  train(here, {.broadcast_buffers = true}, [&](auto& ddp, int step) {
    {
      const torch::NoGradGuard no_grad;
      ddp->eval();
      auto sum = ddp.forward(inputs(here, step)).sum();
      all_reduce(here.group(), sum);
      here.say("evaluated", {sum});
      ddp->train();
    }
    ddp.forward(inputs(here, step)).square().mean().backward();
  });
}

void trains_on_a_thread(Here& here) {
  std::thread([&] { train(here, {}, backward(here)); }).join();
}

void forks_a_process(Here& here) {
  Net net;
  here.recorder.watch(net);
  torch::optim::SGD optimizer(net->parameters(), 0.1);
  const pid_t child = ::fork();
  if (child == 0) {
    here.recorder.step(optimizer);  // there is no gradient
    ::_exit(9);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  here.said << "child " << WEXITSTATUS(status) << "\n";
}

void loses_a_model_that_was_watched(Here& here) {
  {
    Net net;
    here.recorder.watch(net);
    net->forward(inputs(here, 0)).sum().backward();
  }
  train(here, {}, backward(here));
}

}  // namespace

std::vector<TrainingInCpp> all() {
  namespace optim = torch::optim;
  return {
      {"adam", [](Here& here) { train_by<optim::Adam>(here, optim::AdamOptions(0.01)); }},
      {"adagrad", [](Here& here) { train_by<optim::Adagrad>(here, optim::AdagradOptions(0.01)); }},
      {"rmsprop", [](Here& here) { train_by<optim::RMSprop>(here, optim::RMSpropOptions(0.01)); }},
      {"lbfgs", [](Here& here) { train_by<optim::LBFGS>(here, optim::LBFGSOptions(0.1)); }},
      {"accumulates", accumulates},
      {"averages_by_hand", averages_by_hand},
      {"zero_redundancy", divides_state},
      {"averages_parameters", averages_parameters},
      {"steps_in_backward", steps_in_backward},
      {"unfreezes", trains_a_part_and_then_more},
      {"optimizer_an_epoch", has_an_optimizer_an_epoch},
      {"schedules_and_clips", schedules_and_clips},
      {"evaluates", evaluates_between_steps},
      {"thread", trains_on_a_thread},
      {"forks", forks_a_process},
      {"lost_model", loses_a_model_that_was_watched},
  };
}

}  // namespace loops

std::vector<TrainingInCpp> trainings_of_loops() {
  return loops::all();
}

}  // namespace lockstep::testing
