// convert_sync_batchnorm() on single layers: what the one in its place has of them, and with whom
// it speaks.
#include "ddp/batch_norm.h"
#include "ddp/convert_sync_batchnorm.h"
#include "ddp/init.h"
#include "ddp/sync_batch_norm.h"
#include "tests/ddp/forked_world.h"

#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/torch.h>

namespace lockstep {
namespace {

using testing::Group;
using testing::numbers;
using testing::run_world;
using testing::same;

TEST(Convert, OfALayerInTwoPlacesPutsOneIntoBoth) {
  const auto reports = run_world(1, [](const Group& group) {
    const auto shared = std::make_shared<torch::nn::BatchNorm1dImpl>(1);
    torch::nn::Sequential first(shared, shared), second(shared);
    torch::nn::ModuleList net(first, second);
    convert_sync_batchnorm(net, group);
    const bool is_one = first->ptr(0) == second->ptr(0) && first->ptr(0) == first->ptr(1);
    const bool is_registered = first->children()[0] == first->ptr(0) &&
                               first->children()[1] == first->ptr(0) &&
                               second->children()[0] == first->ptr(0);
    return c10::str(is_one, is_registered, first[0]->as<SyncBatchNormImpl>() != nullptr,
                    first->ptr(0) == std::shared_ptr<torch::nn::Module>(shared));
  });
  EXPECT_EQ(reports, same(1, "1110"));
}

TEST(Convert, OfAModelThatIsALayerReturnsTheOneInItsPlace) {
  const auto reports = run_world(1, [](const Group& group) {
    torch::nn::BatchNorm3d norm(2);
    const auto sync = convert_sync_batchnorm(norm, group);
    const bool shares = sync->as<SyncBatchNormImpl>()->weight.is_same(norm->weight);
    BatchNorm3d ours(2);
    return c10::str(shares, convert_sync_batchnorm(ours, group) == ours.ptr(),
                    revert_sync_batchnorm(sync) == norm.ptr());
  });
  EXPECT_EQ(reports, same(1, "111"));
}

// Rank r of the world is rank 0 of a group of its own.
Group alone(const Group& world) {
  const auto store = c10::make_intrusive<c10d::PrefixStore>(
      "alone " + std::to_string(world->getRank()), world->getStore());
  return init_process_group({.store = store, .rank = 0, .world_size = 1});
}

TEST(Convert, AgainGoesOverToTheOtherGroupAndLeavesLayersMadeAsSyncBatchNormAlone) {
  const auto reports = run_world(2, [](const Group& group) {
    const Group own = alone(group);
    const auto options = torch::nn::BatchNorm1dOptions(1).momentum(1.0);
    torch::nn::Sequential net(torch::nn::BatchNorm1d{options}, BatchNorm1d{options});
    net->push_back(SyncBatchNorm({.num_features = 1, .momentum = 1.0, .process_group = own}));
    std::string report;
    const auto note = [&](const Group& other) {
      convert_sync_batchnorm(net, other);
      for (std::size_t i = 0; i < 3; ++i) {
        const at::Tensor input = torch::full({2, 1}, group->getRank() * 4.0);
        auto* const sync = net[i]->as<SyncBatchNormImpl>();
        sync != nullptr ? sync->forward(input) : net[i]->as<BatchNorm1d>()->forward(input);
        report += numbers(net[i]->named_buffers()["running_mean"]) + " ";
      }
    };
    const auto first = [&] { return net->ptr(0); };
    note(own);
    const auto before = first();
    note(group);
    note(group);
    return report + c10::str(before == first());
  });
  EXPECT_EQ(reports, (std::vector<std::string>{"0 0 0 2 2 0 2 2 0 1", "4 4 4 2 2 4 2 2 4 1"}));
}

}  // namespace
}  // namespace lockstep
