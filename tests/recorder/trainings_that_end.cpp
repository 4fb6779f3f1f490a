// Trainings that end early, on one rank or on all.
#include "lockstep/ddp.h"
#include "tests/recorder/trainings_in_cpp.h"

#include <torch/torch.h>

#include <csignal>
#include <unistd.h>

namespace lockstep::testing {

namespace ends {
namespace {

// Ends by `act` in the forward or the backward of its second step.
void train(Here& here, bool in_backward, const std::function<void()>& act) {
  torch::nn::Linear net(2, 1);
  DistributedDataParallel ddp(net, {.process_group = here.group()});
  here.recorder.watch(ddp);
  torch::optim::SGD optimizer(ddp->parameters(), 0.1);
  for (int step = 0; step < 3; ++step) {
    optimizer.zero_grad();
    const auto loss = ddp.forward(at::ones({1, 2})).sum();
    if (step == 1 && in_backward)
      loss.register_hook([&](const at::Tensor& gradient) {
        act();
        return gradient;
      });
    else if (step == 1)
      act();
    loss.backward();
    here.recorder.step(optimizer);
  }
  here.say("model", *net);
}

void throw_it() {
  throw std::runtime_error("a bad sample");
}

void goes_on_after_an_exception(Here& here) {
  try {
    train(here, /*in_backward=*/true, throw_it);
  } catch (const std::runtime_error& error) {
    here.said << error.what() << "\n";
  }
  train(here, false, [] {});
}

// An exception of the optimizer is the program's.
void has_an_optimizer_that_throws(Here& here) {
  torch::nn::Linear net(2, 1);
  here.recorder.watch(net);
  torch::optim::LBFGS optimizer(net->parameters());
  try {
    here.recorder.step(optimizer);  // it needs a closure
  } catch (const c10::Error& error) {
    here.said << error.what_without_backtrace() << "\n";
  }
}

void watches_nothing(Here& here) {
  here.recorder.watch(std::shared_ptr<torch::nn::Linear::Impl>());
  here.said << "went on\n";
}

}  // namespace

std::vector<TrainingInCpp> all() {
  const auto by = [](bool in_backward, const std::function<void()>& act) {
    return [=](Here& here) { train(here, in_backward, act); };
  };
  return {
      {"throws_in_forward", by(false, throw_it)},
      {"throws_in_backward", by(true, throw_it)},
      {"throws_no_exception", by(false, [] { throw 7; })},
      {"exits", by(false, [] { ::_exit(3); })},
      {"exits_in_backward", by(true, [] { ::_exit(4); })},
      {"killed", by(false, [] { std::raise(SIGKILL); })},
      {"goes_on", goes_on_after_an_exception},
      {"optimizer_throws", has_an_optimizer_that_throws},
      {"null_module", watches_nothing, {"model 0"}},
  };
}

}  // namespace ends

std::vector<TrainingInCpp> trainings_that_end() {
  return ends::all();
}

}  // namespace lockstep::testing
