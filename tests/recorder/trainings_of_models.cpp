// Trainings of models of all kinds.
#include "tests/recorder/small_net.h"

namespace lockstep::testing {

namespace models {
namespace {

namespace nn = torch::nn;

void plays_a_game_of_two_models(Here& here) {
  nn::Linear makes(6, 6);
  Net judges;
  DistributedDataParallel maker(makes, {.process_group = here.group()});
  DistributedDataParallel judge(judges, {.process_group = here.group()});
  here.recorder.watch(maker);
  here.recorder.watch(judge);
  torch::optim::Adam of_maker(maker->parameters()), of_judge(judge->parameters());
  for (int step = 0; step < 2; ++step) {
    of_judge.zero_grad();
    const auto made = maker.forward(inputs(here, step));
    judge.forward(made.detach()).mean().backward();
    here.recorder.step(of_judge);
    of_maker.zero_grad();
    judge.forward(made).mean().neg().backward();
    here.recorder.step(of_maker);
  }
  here.say("maker", *makes);
  here.say("judge", *judges);
}

void normalises(Here& here) {
  nn::Sequential net(nn::Linear(6, 5), nn::BatchNorm1d(5), nn::ReLU(), nn::Linear(5, 1));
  convert_sync_batchnorm(net, here.group());
  DistributedDataParallel ddp(net, {.process_group = here.group()});
  here.recorder.watch(ddp);
  torch::optim::SGD optimizer(ddp->parameters(), 0.1);
  for (int step = 0; step < 3; ++step) {
    ddp.forward(inputs(here, step)).mean().backward();
    here.recorder.step(optimizer);
    optimizer.zero_grad();
  }
  here.say("model", *net);
  here.say("buffers", net->buffers());
}

// Recomputes a part of the forward in the backward, as checkpointing does.
struct Recomputed : torch::autograd::Function<Recomputed> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& input,
                            NetImpl* net) {
    context->save_for_backward({input});
    context->saved_data["net"] = reinterpret_cast<std::int64_t>(net);
    const torch::NoGradGuard no_grad;
    return net->forward(input);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    auto* const net = reinterpret_cast<NetImpl*>(context->saved_data["net"].toInt());
    const auto input = context->get_saved_variables()[0].detach().requires_grad_();
    const at::AutoGradMode with_grad(true);
    net->forward(input).backward(gradients[0]);
    return {input.grad(), at::Tensor()};
  }
};

struct RecomputingImpl : nn::Module {
  RecomputingImpl() : net(register_module("net", Net())) {}
  at::Tensor forward(const at::Tensor& input) { return Recomputed::apply(input, net.get()); }
  Net net{nullptr};
};
TORCH_MODULE(Recomputing);

void has_a_backward_in_a_backward(Here& here) {
  Recomputing net;
  net->net->drop->eval();
  DistributedDataParallel ddp(net, {.process_group = here.group(), .static_graph = true});
  here.recorder.watch(ddp);
  torch::optim::SGD optimizer(ddp->parameters(), 0.1);
  for (int step = 0; step < 3; ++step) {
    ddp.forward(inputs(here, step).requires_grad_()).mean().backward();
    here.recorder.step(optimizer);
    optimizer.zero_grad();
  }
  here.say("model", *net);
}

void penalises_gradients(Here& here) {
  train(here, {}, [&](auto& ddp, int step) {
    const auto input = inputs(here, step).requires_grad_();
    const auto loss = ddp.forward(input).square().mean();
    const auto slope = torch::autograd::grad({loss}, {input}, {}, true, true)[0];
    (loss + slope.square().sum()).backward();
  });
}

void sends_less(Here& here) {
  train(here, {}, backward(here), [](auto& ddp) {
    ddp->register_comm_hook(std::make_shared<PowerSgd>(PowerSgdOptions{.start_power_sgd_iter = 1}));
  });
}

struct WordsImpl : nn::Module {
  WordsImpl()
      : words(register_module("words", nn::Embedding(nn::EmbeddingOptions(20, 3).sparse(true)))) {}
  at::Tensor forward(const at::Tensor& rows) { return words(rows); }
  nn::Embedding words{nullptr};
};
TORCH_MODULE(Words);

void has_sparse_gradients(Here& here) {
  Words net;
  DistributedDataParallel ddp(net, {.process_group = here.group()});
  here.recorder.watch(ddp);
  torch::optim::SGD optimizer(ddp->parameters(), 0.1);
  for (int step = 0; step < 3; ++step) {
    optimizer.zero_grad();
    ddp.forward(at::tensor({step, here.rank, 7})).square().sum().backward();
    here.recorder.step(optimizer);
  }
  here.say("model", *net);
}

// Parameters of every dtype that a gradient may have.
struct TypesImpl : nn::Module {
  TypesImpl() {
    for (const auto type : {at::kHalf, at::kBFloat16, at::kDouble, at::kComplexFloat})
      all.push_back(
          register_parameter(c10::toString(type), at::ones({3}, at::TensorOptions(type))));
    register_buffer("bytes", at::ones({3}, at::kByte));
    register_buffer("truths", at::ones({3}, at::kBool));
  }
  at::Tensor forward() {
    auto sum = at::zeros({}, at::kDouble);
    for (const auto& each : all) sum = sum + at::real(each.square().sum()).to(at::kDouble);
    return sum;
  }
  std::vector<at::Tensor> all;
};
TORCH_MODULE(Types);

void has_many_dtypes(Here& here) {
  Types net;
  DistributedDataParallel ddp(net, {.process_group = here.group()});
  here.recorder.watch(ddp);
  torch::optim::SGD optimizer(ddp->parameters(), 0.1);
  for (int step = 0; step < 2; ++step) {
    optimizer.zero_grad();
    ddp.forward().backward();
    here.recorder.step(optimizer);
  }
  here.say("model", *net);
}

// Nothing computes a norm of elements of one byte.
struct NarrowImpl : nn::Module {
  NarrowImpl() : wide(register_parameter("wide", at::ones({3}))) {
    narrow = register_parameter("narrow", at::ones({3}).to(at::kFloat8_e5m2));
  }
  at::Tensor forward() { return wide.sum(); }
  at::Tensor wide, narrow;
};
TORCH_MODULE(Narrow);

void has_parameters_without_a_norm(Here& here) {
  Narrow net;
  here.recorder.watch(net);
  torch::optim::SGD optimizer({net->wide}, 0.1);
  for (int step = 0; step < 2; ++step) {
    optimizer.zero_grad();
    net->forward().backward();
    here.recorder.step(optimizer);
  }
  here.say("wide", {net->wide});
}

void uses_every_collective(Here& here) {
  const auto& group = here.group();
  for (const auto type :
       {at::kFloat, at::kDouble, at::kHalf, at::kInt, at::kLong, at::kByte, at::kBool}) {
    const auto mine = (at::arange(4) + here.rank).to(type);
    auto sum = mine.clone();
    all_reduce(group, sum, ReduceOp::MAX);
    auto from_one = mine.clone();
    broadcast(group, from_one, 1);
    here.say(c10::toString(type), {sum, from_one});
    here.say("all", all_gather(group, mine));
  }
  std::vector<at::Tensor> parts;
  if (here.rank == 0) parts = {at::ones({2}), at::zeros({2})};
  const auto part = at::empty({2});
  scatter(group, part, parts);
  here.say("gathered", gather(group, part, 1));
  auto complex = at::ones({2}, at::kComplexFloat);
  all_reduce(group, complex);
  here.say("complex", {at::view_as_real(complex)});
  const auto alone = new_subgroups(group, 1);
  auto own = at::full({1}, here.rank);
  all_reduce(alone, own);
  here.say("own", {own});
  barrier(group);
}

void joins_with_uneven_inputs(Here& here) {
  Net net;
  net->drop->eval();
  DistributedDataParallel ddp(net, {.process_group = here.group()});
  here.recorder.watch(ddp);
  torch::optim::SGD optimizer(ddp->parameters(), 0.1);
  auto join = here.recorder.join(ddp);
  for (int step = 0; step < 2 + here.rank; ++step) {
    optimizer.zero_grad();
    ddp.forward(inputs(here, step)).square().mean().backward();
    here.recorder.step(optimizer);
  }
  join.finish();
  here.say("model", *net);
}

}  // namespace

std::vector<TrainingInCpp> all() {
  const auto with = [](DistributedDataParallelOptions options, bool uses_spare = true) {
    return [=](Here& here) { train(here, options, backward(here, uses_spare)); };
  };
  return {
      {"plain", with({})},
      {"bucket_views", with({.bucket_cap_mb = 0.0001, .gradient_as_bucket_view = true})},
      {"unused", with({.find_unused_parameters = true}, false)},
      {"static_graph", with({.static_graph = true}, false)},
      {"checks_replicas", with({.check_replicas_every = 1})},
      {"game_of_two_models", plays_a_game_of_two_models},
      {"sync_batch_norm", normalises},
      {"backward_in_a_backward", has_a_backward_in_a_backward},
      {"penalises_gradients", penalises_gradients},
      {"power_sgd", sends_less},
      {"sparse_gradients", has_sparse_gradients},
      {"many_dtypes", has_many_dtypes},
      {"without_a_norm", has_parameters_without_a_norm, {"parameters of model 0"}},
      {"collectives", uses_every_collective},
      {"join", joins_with_uneven_inputs},
  };
}

}  // namespace models

std::vector<TrainingInCpp> trainings_of_models() {
  return models::all();
}

}  // namespace lockstep::testing
