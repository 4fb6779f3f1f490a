// A sharded optimizer does what the whole one does, and each rank keeps its own part of the state.
#include "train/zero_redundancy_optimizer.h"

#include "ddp/distributed_data_parallel.h"
#include "tests/ddp/forked_world.h"
#include "tests/train/zero_redundancy/sharded.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

namespace lockstep {
namespace {

namespace optim = torch::optim;
using testing::factory;
using testing::Group;
using testing::in_groups;
using testing::numbers;
using testing::optimizer_kinds;
using testing::parameters;
using testing::ParamGroups;
using testing::run_world;
using testing::same;
using testing::set_gradients;
using testing::text_of;
using testing::trained;

std::int64_t elements_of_state(const optim::Optimizer& optimizer) {
  std::int64_t elements = 0;
  for (const auto& [parameter, state] : optimizer.state()) {
    const auto& adam = dynamic_cast<const optim::AdamParamState&>(*state);
    elements += adam.exp_avg().numel() + adam.exp_avg_sq().numel();
  }
  return elements;
}

TEST(ZeroRedundancyOptimizer, DoesWhatTheWholeOptimizerDoesBitForBit) {
  for (const std::string& kind : optimizer_kinds()) {
    for (const int world : {1, 2, 3, 7}) {
      const auto reports = run_world(world, [&](const Group& group) {
        const auto all = parameters();
        const auto make = factory(kind);
        ZeroRedundancyOptimizer optimizer(group, in_groups(all, make), make);
        for (int step = 0; step < 4; ++step) {
          set_gradients(all, step);
          // Under DistributedDataParallel all ranks have all gradients; the owner's alone count.
          for (const at::Tensor& each : all)
            if (optimizer.owner_of(each) != group->getRank()) each.mutable_grad().reset();
          optimizer.step();
        }
        return text_of(all) == trained(kind, 4) ? std::string("equal") : text_of(all);
      });
      EXPECT_EQ(reports, same(world, "equal")) << kind << " in a world of " << world;
    }
  }
}

// 4, 6, 3 and 1 elements: 6 + 1 on rank 0, 4 + 3 on rank 1. Adam keeps two numbers for each.
TEST(ZeroRedundancyOptimizer, KeepsTheStateOfItsOwnParametersAlone) {
  const auto reports = run_world(2, [](const Group& group) {
    std::vector<at::Tensor> all;
    for (const int size : {4, 6, 3, 1}) all.push_back(torch::zeros({size}).set_requires_grad(true));
    ZeroRedundancyOptimizer optimizer(group, all, factory("adam"));
    for (const at::Tensor& each : all) each.mutable_grad() = at::ones_like(each);
    optimizer.step();
    std::string report;
    for (const at::Tensor& each : all) report += std::to_string(optimizer.owner_of(each)) + " ";
    const auto before = elements_of_state(optimizer.local());
    optimizer.consolidate_state_dict(1);
    const auto on_rank_1 = group->getRank() == 1 ? elements_of_state(optimizer.consolidated()) : 28;
    return report + "keep " + std::to_string(before) + ", of all " + std::to_string(on_rank_1);
  });
  EXPECT_EQ(reports, same(2, "1 0 1 0 keep 14, of all 28"));
}

TEST(ZeroRedundancyOptimizer, TakesFurtherGroupsAndKeepsTheOldOnesWhereTheyAre) {
  const auto reports = run_world(2, [](const Group& group) {
    const auto all = parameters();
    const auto make = factory("momentum");
    ZeroRedundancyOptimizer optimizer(group, {all[0], all[1]}, make);
    const auto whole = make({std::vector<at::Tensor>{all[0], all[1]}});
    const std::string owners =
        std::to_string(optimizer.owner_of(all[0])) + std::to_string(optimizer.owner_of(all[1]));
    const auto other = parameters();
    const auto reference = make({std::vector<at::Tensor>{other[0], other[1]}});
    for (int step = 0; step < 4; ++step) {
      if (step == 2) {
        optim::OptimizerParamGroup more({all[2], all[3]}), other_more({other[2], other[3]});
        for (auto* each : {&more, &other_more})
          each->set_options(std::make_unique<optim::SGDOptions>(0.5));
        optimizer.add_param_group(more);
        reference->add_param_group(other_more);
      }
      set_gradients(all, step);
      set_gradients(other, step);
      optimizer.step();
      reference->step();
    }
    return owners + std::to_string(optimizer.owner_of(all[0])) +
           std::to_string(optimizer.owner_of(all[1])) + std::to_string(optimizer.owner_of(all[2])) +
           std::to_string(optimizer.owner_of(all[3])) +
           (text_of(all) == text_of(other) ? " equal" : " differ");
  });
  EXPECT_EQ(reports, same(2, "101010 equal"));
}

TEST(ZeroRedundancyOptimizer, ObeysALearningRateSchedulerAndCallsTheClosureOnce) {
  const auto reports = run_world(2, [](const Group& group) {
    const OptimizerFactory make = [](const ParamGroups& groups) {
      return std::make_unique<optim::SGD>(groups, optim::SGDOptions(1.0));
    };
    std::string report;
    for (const bool is_sharded : {true, false}) {
      const std::vector<at::Tensor> all = {torch::zeros({1}).set_requires_grad(true),
                                           torch::zeros({1}).set_requires_grad(true)};
      ZeroRedundancyOptimizer sharded(group, all, make);
      const auto whole = make({all});
      optim::StepLR scheduler(is_sharded ? sharded.local() : *whole, 1, 0.5);
      int calls = 0;
      const auto closure = [&] {
        ++calls;
        sharded.zero_grad();
        const at::Tensor loss = -(all[0] + all[1]).sum();
        loss.backward();
        return loss;
      };
      for (int step = 0; step < 4; ++step) {
        const at::Tensor loss = is_sharded ? sharded.step(closure) : whole->step(closure);
        report += numbers(loss.detach()) + " ";
        scheduler.step();
      }
      report += text_of(all) + std::to_string(calls) + "; ";
    }
    return report;
  });
  const std::string half = "-0 -2 -4 -5 2.75 | 2.75 | 4; ";
  EXPECT_EQ(reports, same(2, half + half));
}

TEST(ZeroRedundancyOptimizer, TrainsUnderDistributedDataParallel) {
  const auto reports = run_world(3, [](const Group& group) {
    std::string report;
    for (const bool is_sharded : {true, false}) {
      torch::manual_seed(1);
      torch::nn::Sequential net(torch::nn::Linear(4, 3), torch::nn::Linear(3, 2));
      DistributedDataParallel ddp(net, {.process_group = group});
      const auto make = factory("adam");
      const auto whole = make({net->parameters()});
      ZeroRedundancyOptimizer sharded(group, net->parameters(), make);
      torch::manual_seed(2 + static_cast<std::uint64_t>(group->getRank()));
      for (int step = 0; step < 3; ++step) {
        net->zero_grad();
        ddp.forward(torch::rand({2, 4})).pow(2).sum().backward();
        if (is_sharded)
          sharded.step();
        else
          whole->step();
      }
      report += text_of(net->parameters()) + "#";
    }
    const auto half = report.size() / 2;
    return report.substr(0, half) == report.substr(half) ? std::string("equal") : report;
  });
  EXPECT_EQ(reports, same(3, "equal"));
}

}  // namespace
}  // namespace lockstep
