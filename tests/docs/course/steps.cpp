#include "tests/docs/course/steps.h"

#include "lockstep/ddp.h"
#include "lockstep/recorder.h"

#include <torch/torch.h>

#include <array>
#include <cmath>
#include <iomanip>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

namespace lockstep::course {

namespace {

using Group = c10::intrusive_ptr<c10d::ProcessGroup>;

void one_process(const Group& group, int rank) {
  const auto weight_after_a_step = [](const at::Tensor& batch, const auto& wrap) {
    torch::nn::Linear model(torch::nn::LinearOptions(1, 1).bias(false));
    torch::nn::init::ones_(model->weight);
    auto wrapped = wrap(model);
    wrapped(batch).square().mean().backward();
    torch::optim::SGD(model->parameters(), 0.01).step();
    return model->weight.item<float>();
  };
  const auto in_the_group = [&](auto& model) {
    return lockstep::DistributedDataParallel(model, {.process_group = group});
  };
  const auto alone = [](auto& model) { return model; };

  const auto samples = torch::arange(1.0, 9.0).view({8, 1});
  const auto own = samples.slice(0, rank * 4, rank * 4 + 4);
  std::cout << "rank " << rank << ": " << weight_after_a_step(own, in_the_group) << "\n";
  if (rank == 0) {
    std::cout << "one process, 4 samples: " << weight_after_a_step(own, alone) << "\n";
    std::cout << "one process, 8 samples: " << weight_after_a_step(samples, alone) << "\n";
  }
}

void dividing_the_data(const Group&, int) {
  for (int epoch = 0; epoch < 2; ++epoch) {
    for (int rank = 0; rank < 3; ++rank) {
      lockstep::DistributedSampler sampler(10, {.num_replicas = 3, .rank = rank});
      sampler.set_epoch(epoch);
      std::cout << "epoch " << epoch << ", rank " << rank << ":";
      for (const auto sample : sampler.indices()) std::cout << " " << sample;
      std::cout << "\n";
    }
  }
}

void collectives(const Group& group, int rank) {
  const auto mine = torch::tensor({rank + 1}), sent = mine.clone(), summed = mine.clone();
  lockstep::broadcast(group, sent, /*source=*/0);
  lockstep::all_reduce(group, summed);
  const auto parts = lockstep::all_gather(group, mine);
  std::cout << "rank " << rank << ": broadcast " << sent.item<int>() << ", all-reduce "
            << summed.item<int>() << ", all-gather";
  for (const auto& part : parts) std::cout << " " << part.item<int>();
  std::cout << "\n";
}

void averaged_gradients(const Group& group, int rank) {
  const auto all = torch::tensor({{1.0f}, {2.0f}, {3.0f}, {4.0f}});
  const auto batch = rank == 0 ? all.slice(0, 0, 3) : all.slice(0, 3, 4);
  torch::nn::Linear model(torch::nn::LinearOptions(1, 1).bias(false));
  lockstep::DistributedDataParallel ddp(model, {.process_group = group});
  ddp(batch).mean().backward();
  std::cout << "rank " << rank << ", loss: " << model->weight.grad().item<float>() << "\n";
  model->zero_grad();
  (ddp(batch).mean() * group->getSize() * batch.size(0) / 4).backward();
  std::cout << "rank " << rank << ", loss W n / N: " << model->weight.grad().item<float>() << "\n";
}

void staying_equal(const Group& group, int rank) {
  torch::nn::Linear model(torch::nn::LinearOptions(1, 1).bias(false));
  torch::nn::init::constant_(model->weight, 1 + rank);
  const auto report = [&](const std::string& when) {
    std::cout << "rank " << rank << ", " << when << ": " << model->weight.item<float>() << "\n";
  };
  report("built");
  lockstep::DistributedDataParallel ddp(model, {.process_group = group});  // broadcasts rank 0's
  report("wrapped");
  const auto options = torch::optim::SGDOptions(0.1).momentum(0.9);
  auto optimizer = std::make_unique<torch::optim::SGD>(model->parameters(), options);
  for (int step = 0; step < 2; ++step) {
    if (rank == 1 && step == 1)  // restarts, and rank 0 alone has loaded the optimizer's state
      optimizer = std::make_unique<torch::optim::SGD>(model->parameters(), options);
    optimizer->zero_grad();
    ddp(torch::ones({1, 1})).sum().backward();
    optimizer->step();
    report("step " + std::to_string(step));
  }
}

void accumulated_gradients(const Group& group, int rank) {
  torch::nn::Linear model(torch::nn::LinearOptions(1, 1).bias(false));
  lockstep::DistributedDataParallel ddp(model, {.process_group = group});
  for (int micro_batch = 0; micro_batch < 3; ++micro_batch) {
    const auto sample = torch::full({1, 1}, (rank + 1.0) * (micro_batch + 1));
    if (micro_batch < 2) {
      const auto local = ddp.no_sync();
      ddp(sample).sum().backward();
    } else {
      ddp(sample).sum().backward();
    }
    std::cout << "rank " << rank << ", backward " << micro_batch << ": "
              << model->weight.grad().item<float>() << "\n";
  }
}

void buckets(const Group& group, int) {
  torch::nn::Sequential model;
  for (int layer = 0; layer < 6; ++layer)
    model->push_back(torch::nn::Linear(torch::nn::LinearOptions(2, 2).bias(false)));
  lockstep::DistributedDataParallel ddp(
      model, {.process_group = group, .bucket_cap_mb = std::ldexp(32, -20)});  // 32 bytes
  for (int pass = 0; pass < 2; ++pass) {
    ddp(torch::ones({1, 2})).sum().backward();
    std::string line = "pass " + std::to_string(pass) + ":";
    for (const auto& bucket : ddp->bucket_plan()) {
      for (const char* before = " ("; const auto layer : bucket.gradients) {
        line += before + std::to_string(layer);
        before = " ";
      }
      line += ")";
    }
    lockstep::print_rank_0(group, line);
  }
}

void overlap(const Group& group, int) {
  struct Logged : lockstep::CommunicationHook {
    explicit Logged(std::string& of) : events(of) {}
    std::string description() const override { return "logged"; }
    lockstep::HookResult run(lockstep::GradBucket& bucket,
                             lockstep::HookCollectives& collectives) override {
      events += " send";
      return all_reduce->run(bucket, collectives);
    }
    std::string& events;
    std::shared_ptr<lockstep::CommunicationHook> all_reduce = lockstep::all_reduce_hook();
  };
  for (const double cap_mb : {25.0, 1e-05}) {
    std::string events;
    torch::nn::Sequential model;
    for (int number = 0; number < 4; ++number) {
      torch::nn::Linear layer(torch::nn::LinearOptions(4, 4).bias(false));
      layer->weight.register_hook(
          [&events, number](const at::Tensor&) { events += " " + std::to_string(number); });
      model->push_back(layer);
    }
    lockstep::DistributedDataParallel ddp(model, {.process_group = group, .bucket_cap_mb = cap_mb});
    ddp->register_comm_hook(std::make_shared<Logged>(events));
    for (int pass = 0; pass < 2; ++pass) {
      events.clear();  // the first pass has one bucket, whatever the cap
      ddp(torch::ones({1, 4})).sum().backward();
    }
    lockstep::print_rank_0(group, "buckets of ", cap_mb, " MiB:", events);
  }
}

void buffers(const Group& group, int rank) {
  struct Watched : torch::nn::BatchNorm1dImpl {
    using BatchNorm1dImpl::BatchNorm1dImpl;
    at::Tensor forward(const at::Tensor& input) {
      std::cout << " " << running_mean.item<float>();
      return BatchNorm1dImpl::forward(input);
    }
  };
  for (const bool broadcasts : {true, false}) {
    const auto layer = std::make_shared<Watched>(torch::nn::BatchNormOptions(1).momentum(0.5));
    lockstep::DistributedDataParallel ddp(
        layer, {.process_group = group, .broadcast_buffers = broadcasts});
    std::cout << "rank " << rank << (broadcasts ? ", on:" : ", off:");
    for (int step = 0; step < 3; ++step)
      ddp(torch::full({4, 1}, static_cast<float>(rank))).sum().backward();
    std::cout << " -> " << layer->running_mean.item<float>() << "\n";
  }
}

void sync_batch_norm(const Group& group, int rank) {
  const auto all = torch::arange(0.0, 12.0, 2.0).view({6, 1});
  const auto batch = rank == 0 ? all.slice(0, 0, 4) : all.slice(0, 4, 6);
  torch::nn::Sequential model(
      torch::nn::BatchNorm1d(torch::nn::BatchNormOptions(1).eps(std::ldexp(1, -10))));
  const auto print = [&](const std::string& whose) {
    std::cout << "rank " << rank << ", " << whose << ":" << std::fixed << std::setprecision(2);
    const auto output = model->forward(batch);
    for (int i = 0; i < output.size(0); ++i) std::cout << " " << output[i].item<float>();
    std::cout << "\n";
  };
  print("own batch");
  lockstep::convert_sync_batchnorm(model, group);
  print("all ranks");
}

void hangs(const Group& group, int rank) {
  for (int step = 0; step < 3; ++step) {
    if (rank == 1 && step == 2) break;  // an early stop, of this rank alone
    try {
      lockstep::all_reduce(group, torch::ones(1), lockstep::ReduceOp::SUM, {.name = "loss"});
    } catch (const lockstep::CommunicationError& error) {
      std::cout << "rank " << rank << ", step " << step << ": " << error.what() << "\n";
    }
  }
}

void nothing_to_send(const Group& group, int rank) {
  const auto layer = torch::nn::LinearOptions(1, 1).bias(false);
  struct Branches : torch::nn::Module {
    at::Tensor forward(const std::string& name, const at::Tensor& x) {
      return named_children()[name]->as<torch::nn::Linear>()->forward(x);
    }
  };
  const auto model = std::make_shared<Branches>();
  for (const char* name : {"a", "b", "c"}) model->register_module(name, torch::nn::Linear(layer));
  lockstep::DistributedDataParallel branches(
      model, {.process_group = group, .find_unused_parameters = true});
  branches(rank == 0 ? "a" : "b", torch::full({1, 1}, rank + 1.0)).backward();
  for (const auto& [name, weight] : model->named_parameters().pairs())
    if (weight.grad().defined())
      std::cout << "rank " << rank << ", " << name[0] << ": " << weight.grad().item<float>()
                << "\n";

  torch::nn::Linear linear(layer);
  lockstep::DistributedDataParallel line(linear, {.process_group = group});
  auto join = line.join();
  for (int step = 0; step < std::array{3, 1, 2}.at(static_cast<size_t>(rank)); ++step) {
    line->zero_grad();
    line(torch::full({1, 1}, 6.0 * (rank + 1))).backward();
    std::cout << "rank " << rank << ", step " << step << ": " << linear->weight.grad().item<float>()
              << "\n";
  }
  join.finish();
}

void evaluation(const Group& group, int) {
  const auto is_right = torch::arange(10) < 2;  // the model is right on samples 0 and 1 alone
  for (const bool pad : {true, false}) {
    const lockstep::DistributedSampler sampler(10, *group, {.shuffle = false, .pad = pad});
    const auto counts = torch::zeros(2, torch::kInt64);
    for (const auto sample : sampler.indices()) {
      counts[0] += is_right[static_cast<int64_t>(sample)];
      counts[1] += 1;
    }
    lockstep::all_reduce(group, counts);
    lockstep::print_rank_0(group, pad ? "padded: " : "each once: ", counts[0].item<int64_t>(),
                           " right of ", counts[1].item<int64_t>());
  }
}

void your_own_training(const Group& group, int rank) {
  lockstep::Recorder recorder(group);
  torch::manual_seed(0);
  auto data = torch::data::datasets::TensorDataset(torch::randn({64, 4}))
                  .map(torch::data::transforms::Stack<torch::data::TensorExample>());
  const lockstep::DistributedSampler sampler(64, *group);
  const auto loader = torch::data::make_data_loader(data, recorder.watch(sampler), 8);
  lockstep::DistributedDataParallel ddp(torch::nn::Linear(4, 1),
                                        {.process_group = recorder.group()});
  recorder.watch(ddp);
  torch::optim::SGD optimizer(ddp->parameters(), 0.1);
  for (int epoch = 0; epoch < 2; ++epoch) {
    at::Tensor loss;
    for (const auto& batch : *loader) {
      optimizer.zero_grad();
      loss = torch::mse_loss(ddp(batch.data), batch.data.sum(1, /*keepdim=*/true));
      loss.backward();
      recorder.step(optimizer);
    }
    std::cout << "rank " << rank << ", epoch " << epoch << ": loss " << std::fixed
              << std::setprecision(2) << loss.item<float>() << "\n";
  }
}

}  // namespace

void run_step(int number) {
  const auto group = lockstep::init_process_group();
  const std::vector steps{one_process,   dividing_the_data,     collectives, averaged_gradients,
                          staying_equal, accumulated_gradients, buckets,     overlap,
                          buffers,       sync_batch_norm,       hangs,       nothing_to_send,
                          evaluation,    your_own_training};
  steps.at(static_cast<std::size_t>(number) - 1)(group, group->getRank());
}

}  // namespace lockstep::course
