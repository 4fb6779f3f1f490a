// Communication hooks: what they receive, and what they may do.
#include "ddp/communication_hooks.h"

#include "ddp/distributed_data_parallel.h"
#include "tests/ddp/forked_world.h"
#include "tests/ddp/hooks/called.h"
#include "tests/ddp/modules.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <sstream>

namespace lockstep {
namespace {

using testing::called;
using testing::Group;
using testing::numbers;
using testing::run_world;
using testing::same;
using testing::share;
using testing::Terms;
using testing::ways_to_hold;
using Loss = testing::TermsImpl::Loss;

TEST(CommunicationHooks, ReceiveTheirBucketsInLaunchOrderWithGradientsThatAreNotDivided) {
  for (const auto& options : ways_to_hold({.bucket_cap_mb = 0.0})) {
    const auto reports = run_world(2, [&](const Group& group) {
      Terms net(3);
      auto mine = options;
      mine.process_group = group;
      DistributedDataParallel ddp(net, mine);
      std::ostringstream seen;
      ddp->register_comm_hook(called([&](GradBucket& bucket, HookCollectives& collectives) {
        seen << bucket.index() << (bucket.is_last() ? " last" : "") << ", "
             << numbers(bucket.buffer()) << " of";
        for (const at::Tensor& each : bucket.parameters())
          for (std::size_t w = 0; w < 3; ++w)
            if (each.is_same(net->weights[w])) seen << " w" << w;
        seen << (bucket.gradients().front().is_alias_of(bucket.buffer()) ? "" : " elsewhere")
             << " / " << collectives.divisor() << "; ";
        return HookResult(bucket.buffer());
      }));
      for (int step = 0; step < 2; ++step) {
        net->zero_grad();
        ddp.forward(Loss{{2, 3 * share(group)}, {1, 5.0}, {0, 7.0}}).backward();
      }
      return seen.str() + net->gradients();
    });
    const auto step = [](const std::string& share) {
      return "0, 7 7 of w0 / 2; 1, 5 5 of w1 / 2; 2 last, " + share + " " + share + " of w2 / 2; ";
    };
    const std::string first =
        "0 last, 7 7 5 5 R R of w0 w1 w2 / 2; ";  // one bucket until they are rebuilt
    for (int rank = 0; rank < 2; ++rank) {
      const std::string own = rank == 0 ? "6" : "12";
      std::string one_bucket = first;
      for (std::size_t at; (at = one_bucket.find('R')) != std::string::npos;)
        one_bucket.replace(at, 1, own);
      EXPECT_EQ(reports[static_cast<std::size_t>(rank)],
                one_bucket + step(own) + "7 7 | 5 5 | " + own + " " + own);
    }
  }
}

TEST(CommunicationHooks, MayReturnAWorkOfTheProgramsOwn) {
  const auto reports = run_world(2, [](const Group& group) {
    Terms net(2);
    DistributedDataParallel ddp(net, {.process_group = group});
    ddp->register_comm_hook(called([group](GradBucket& bucket, HookCollectives& collectives) {
      std::vector<at::Tensor> sum{bucket.buffer() / collectives.divisor()};
      return HookResult(group->allreduce(sum), sum.front());
    }));
    ddp.forward(Loss{{0, share(group)}, {1, 10 * share(group)}}).backward();
    return net->gradients();
  });
  EXPECT_EQ(reports, same(2, "3 3 | 30 30"));
}

}  // namespace
}  // namespace lockstep
