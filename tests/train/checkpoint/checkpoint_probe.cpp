// Writes checkpoints for test_checkpoint.py, which Python's PyTorch reads.
#include "ddp/init.h"
#include "tests/train/checkpoint/training.h"
#include "train/checkpoint.h"

#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/torch.h>

#include <string>

void write_checkpoints(const std::string& folder) {
  using namespace lockstep;
  const auto group = init_process_group({.store = c10::make_intrusive<c10d::HashStore>(),
                                         .rank = 0,
                                         .world_size = 1,
                                         .backend = "cpu:gloo"});
  for (const std::string kind : {"sgd", "plain_sgd", "adam", "adamw"}) {
    auto net = lockstep::testing::make_net();
    const auto optimizer = lockstep::testing::make_optimizer(kind, net->parameters());
    std::int64_t epoch = 7;
    lockstep::testing::train(net, *optimizer, 3);
    save_checkpoint(folder + "/" + kind + ".pt", group,
                    {.model = &*net,
                     .optimizer = optimizer.get(),
                     .epoch = &epoch,
                     .generators = {at::globalContext().defaultGenerator(at::kCPU)}});
    lockstep::testing::train(net, *optimizer, 2);
    save_checkpoint(folder + "/" + kind + "_two_steps_later.pt", group, {.model = &*net});
  }
}
