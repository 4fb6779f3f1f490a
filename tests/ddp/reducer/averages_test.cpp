// Checks properties of averages that hold whatever the numbers are.
#include "ddp/distributed_data_parallel.h"
#include "tests/ddp/forked_world.h"
#include "tests/ddp/modules.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>

namespace lockstep {
namespace {

using testing::Group;
using testing::numbers;
using testing::run_world;
using testing::same;
using testing::Terms;
using Loss = testing::TermsImpl::Loss;

// Averages of equal gradients are these gradients, and a factor of 2^k goes through exactly.
TEST(Averages, AreLinearAndKeepWhatIsEqual) {
  const auto reports = run_world(4, [](const Group& group) {
    torch::manual_seed(1);
    torch::nn::Linear net(33, 7);
    DistributedDataParallel ddp(net, {.process_group = group});
    const auto gradient_of = [&](const at::Tensor& input, double factor) {
      net->zero_grad();
      (ddp.forward(input).pow(2).sum() * factor).backward();
      return net->weight.grad().clone();
    };
    torch::manual_seed(2);
    const auto equal_input = torch::rand({5, 33});
    net->zero_grad();
    net->forward(equal_input).pow(2).sum().backward();
    const at::Tensor alone = net->weight.grad().clone();
    std::string report = gradient_of(equal_input, 1).equal(alone) ? "kept " : "changed ";
    torch::manual_seed(10 + static_cast<std::uint64_t>(group->getRank()));
    const auto own_input = torch::rand({5, 33});
    const at::Tensor once = gradient_of(own_input, 1);
    report += gradient_of(own_input, 1024).equal(once * 1024) ? "linear" : "not linear";
    return report;
  });
  EXPECT_EQ(reports, same(4, "kept linear"));
}

// One rank's NaN reaches every rank, and no other element.
TEST(Averages, CarryOneRanksNanToAllAndOnlyInItsPlace) {
  for (const bool views : {false, true}) {
    const auto reports = run_world(3, [&](const Group& group) {
      Terms net(2, 3);
      DistributedDataParallel ddp(net, {.process_group = group, .gradient_as_bucket_view = views});
      std::string report;
      for (int step = 0; step < 2; ++step) {
        net->zero_grad();
        const auto loss = ddp.forward(Loss{{0, 3.0}, {1, 6.0}});
        const auto hook = net->weights[1].register_hook([&](const at::Tensor& gradient) {
          at::Tensor odd = gradient.clone();
          if (group->getRank() == 2) odd[1] = std::nan("");
          return odd;
        });
        loss.backward();
        net->weights[1].remove_hook(hook);
        for (const at::Tensor& weight : net->weights) {
          report += numbers(at::nan_to_num(weight.grad(), -1.0)) + " ";
        }
      }
      return report;
    });
    EXPECT_EQ(reports, same(3, "3 3 3 6 -1 6 3 3 3 6 -1 6 "));
  }
}

}  // namespace
}  // namespace lockstep
