// Layers of SyncBatchNorm under a DistributedDataParallel: the errors that they receive, and the
// groups that they use.
#include "ddp/convert_sync_batchnorm.h"
#include "ddp/distributed_data_parallel.h"
#include "ddp/errors.h"
#include "ddp/init.h"
#include "tests/ddp/forked_world.h"

#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/torch.h>

namespace lockstep {
namespace {

using testing::Group;
using testing::run_world;
using testing::same;

torch::nn::Sequential layered_network() {
  torch::manual_seed(3);
  return torch::nn::Sequential(torch::nn::Linear(3, 3), torch::nn::BatchNorm1d(3),
                               torch::nn::Linear(3, 3), torch::nn::BatchNorm1d(3),
                               torch::nn::Linear(3, 1));
}

struct ThrowsOnDemand : torch::nn::Module {
  ThrowsOnDemand() : network(register_module("network", layered_network())) {}
  at::Tensor forward(at::Tensor value) {
    int layer = 0;
    for (auto& each : *network) {
      if (throws_in_forward && layer == 2) throw std::runtime_error("no more data");
      value = each.forward(value);
      if (throws_in_backward && layer == 2)
        value.register_hook([](const at::Tensor&) { throw std::runtime_error("a hook"); });
      ++layer;
    }
    return value;
  }
  bool throws_in_forward = false, throws_in_backward = false;
  torch::nn::Sequential network;
};

using Handle = DistributedDataParallel<ThrowsOnDemand>;

at::Tensor batch_of(const Group& group) {
  return torch::arange(12, at::kFloat).view({4, 3}).cos() + group->getRank();
}

// The outcome of a step: nothing, or its exception's sentence from where it becomes telling.
std::string step_of(Handle& ddp, const Group& group) {
  try {
    ddp->forward(batch_of(group)).square().sum().backward();
    return "done";
  } catch (const CommunicationError& error) {
    const std::string text = error.what();
    const auto reported = text.rfind("reported: ");
    return reported == std::string::npos ? "CommunicationError"
                                         : "received " + text.substr(reported + 10);
  } catch (const std::exception& error) {
    return first_line(error);
  }
}

bool has_finite_statistics(ThrowsOnDemand& model) {
  for (const at::Tensor& buffer : model.buffers()) {
    if (!buffer.to(at::kDouble).isfinite().all().item<bool>()) return false;
  }
  return true;
}

TEST(LayersOverRanks, ReceiveTheErrorOfAPeersBackwardAndContinueAfterAnUpdate) {
  for (const int world_size : {2, 3}) {
    const auto reports = run_world(world_size, [](const Group& group) {
      const auto model = std::make_shared<ThrowsOnDemand>();
      convert_sync_batchnorm(std::shared_ptr<torch::nn::Module>(model), group);
      Handle ddp(model, {.process_group = group});
      std::string report = step_of(ddp, group);
      model->throws_in_backward = group->getRank() == 1;
      report += "; " + step_of(ddp, group);
      model->throws_in_backward = false;
      ddp->update_process_group(group);
      report += "; " + step_of(ddp, group) + "; " + step_of(ddp, group);
      return report + (has_finite_statistics(*model) ? "" : "; not finite");
    });
    for (int rank = 0; rank < world_size; ++rank) {
      const std::string second =
          rank == 1 ? "a hook" : "received an exception was thrown in the backward pass";
      EXPECT_EQ(reports[static_cast<std::size_t>(rank)], "done; " + second + "; done; done");
    }
  }
}

TEST(LayersOverRanks, ThatWereConvertedAfterwardsReceiveErrorsFromTheNextUpdateOn) {
  const auto reports = run_world(2, [](const Group& group) {
    const auto model = std::make_shared<ThrowsOnDemand>();
    Handle ddp(model, {.process_group = group});
    convert_sync_batchnorm(std::shared_ptr<torch::nn::Module>(model), group);
    ddp->update_process_group(group);
    model->throws_in_backward = group->getRank() == 1;
    return step_of(ddp, group);
  });
  EXPECT_EQ(reports[0], "received an exception was thrown in the backward pass");
  EXPECT_EQ(reports[1], "a hook");
}

// Without an update their group stays out of step, and says so at once.
TEST(LayersOverRanks, WithoutAnUpdateAreRefusedAtOnce) {
  const auto reports = run_world(2, [](const Group& group) {
    const auto model = std::make_shared<ThrowsOnDemand>();
    convert_sync_batchnorm(std::shared_ptr<torch::nn::Module>(model), group);
    Handle ddp(model, {.process_group = group});
    model->throws_in_backward = group->getRank() == 1;
    step_of(ddp, group);
    model->throws_in_backward = false;
    return step_of(ddp, group) == "done" ? std::string("done") : std::string("refused");
  });
  EXPECT_EQ(reports, same(2, "refused"));
}

TEST(LayersOverRanks, ReceiveTheErrorOfAPeersForward) {
  const auto reports = run_world(2, [](const Group& group) {
    const auto model = std::make_shared<ThrowsOnDemand>();
    convert_sync_batchnorm(std::shared_ptr<torch::nn::Module>(model), group);
    Handle ddp(model, {.process_group = group});
    model->throws_in_forward = group->getRank() == 0;
    const std::string report = step_of(ddp, group);
    model->throws_in_forward = false;
    ddp->update_process_group(group);
    return report + "; " + step_of(ddp, group);
  });
  EXPECT_EQ(reports[0], "no more data; done");
  EXPECT_EQ(reports[1], "received forward threw: no more data; done");
}

TEST(LayersOverRanks, GoWhereTheInstanceGoes) {
  const auto reports = run_world(3, [](const Group& group) {
    const auto model = std::make_shared<ThrowsOnDemand>();
    convert_sync_batchnorm(std::shared_ptr<torch::nn::Module>(model), group);
    Handle ddp(model, {.process_group = group});
    std::string report = step_of(ddp, group);
    if (group->getRank() == 0) return report;
    const auto smaller = init_process_group(
        {.store = c10::make_intrusive<c10d::PrefixStore>("second life", group->getStore()),
         .rank = group->getRank() - 1,
         .world_size = 2});
    ddp->update_process_group(smaller);
    return report + "; " + step_of(ddp, smaller) + "; " + step_of(ddp, smaller);
  });
  EXPECT_EQ(reports, (std::vector<std::string>{"done", "done; done; done", "done; done; done"}));
}

TEST(LayersOverRanks, ThatOnlySomeRanksHaveAreRefused) {
  const auto reports = run_world(2, [](const Group& group) {
    const auto model = std::make_shared<ThrowsOnDemand>();
    if (group->getRank() == 1)
      convert_sync_batchnorm(std::shared_ptr<torch::nn::Module>(model), group);
    Handle ddp(model, {.process_group = group});
    return std::string("no error");
  });
  EXPECT_EQ(reports, same(2,
                          "DisagreementError: ranks disagree on the layers of SyncBatchNorm: rank "
                          "0 has none; rank 1 has 'network.1', 'network.3'"));
}

}  // namespace
}  // namespace lockstep
