// Communication hooks: what they receive, and what they may do.
#include "ddp/communication_hooks.h"

#include "ddp/distributed_data_parallel.h"
#include "tests/ddp/forked_world.h"
#include "tests/ddp/hooks/called.h"
#include "tests/ddp/module/joins.h"
#include "tests/ddp/modules.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <sstream>

namespace lockstep {
namespace {

using testing::all_ways;
using testing::called;
using testing::count_of;
using testing::Group;
using testing::Make;
using testing::numbers;
using testing::own;
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

TEST(CommunicationHooks, OfAnAllReduceGiveTheBitsThatNoHookGives) {
  for (const auto& options : all_ways({.find_unused_parameters = true})) {
    // A view that is kept, and a batch, are divided by W, not multiplied by 1/W.
    const bool divides = options.gradient_as_bucket_view || options.batched_grad_copy;
    const int world = divides ? 4 : 3;
    const auto reports = run_world(world, [&](const Group& group) {
      std::string report;
      for (const bool has_hook : {false, true}) {
        torch::manual_seed(1);
        torch::nn::Sequential net(torch::nn::Linear(9, 7), torch::nn::Linear(7, 3));
        auto mine = options;
        mine.process_group = group;
        DistributedDataParallel ddp(net, mine);
        if (has_hook) ddp->register_comm_hook(all_reduce_hook());
        torch::manual_seed(2 + static_cast<std::uint64_t>(group->getRank()));
        for (int step = 0; step < 3; ++step) {
          if (step == 2) {
            const auto guard = ddp.no_sync();
            ddp.forward(torch::rand({4, 9})).pow(2).sum().backward();
          } else {
            net->zero_grad();
          }
          ddp.forward(torch::rand({4, 9})).pow(2).sum().backward();
        }
        for (const auto& each : net->parameters()) report += numbers(each.grad()) + " ";
        report += "#";
      }
      const auto half = report.size() / 2;
      return report.substr(0, half) == report.substr(half) ? std::string("equal") : report;
    });
    EXPECT_EQ(reports, same(world, "equal"));
  }
}

// 2049 is 2048 with 11 bits of precision and with 8, and 1024.5 is 1024.
TEST(CommunicationHooks, OfCompressionRoundBeforeTheyDivideAndSumInHalfPrecision) {
  for (const Make hook :
       {Make([] { return fp16_compress_hook(); }), Make([] { return bf16_compress_hook(); })}) {
    const auto reports = run_world(2, [&](const Group& group) {
      Terms net(2, 2, 0.0, at::kFloat);
      DistributedDataParallel ddp(net, {.process_group = group});
      ddp->register_comm_hook(hook());
      const bool is_first = group->getRank() == 0;
      ddp.forward(Loss{{0, is_first ? 2049.0 : 1.0}, {1, is_first ? 0.5 : 1.5}}).backward();
      return net->gradients() + " " + ddp->logging_data().comm_hook;
    });
    EXPECT_EQ(reports, same(2, "1024 1024 | 1 1 " + hook()->description()));
  }
}

TEST(CommunicationHooks, ThatDoNothingKeepEachRanksGradients) {
  const auto reports = run_world(2, [](const Group& group) {
    Terms net(1);
    DistributedDataParallel ddp(net, {.process_group = group});
    ddp->register_comm_hook(noop_hook());
    ddp.forward(Loss{{0, share(group)}}).backward();
    return net->gradients();
  });
  EXPECT_EQ(reports, (std::vector<std::string>{"2 2", "4 4"}));
}

// The largest absolute value over the ranks is gathered, and then the scaled gradients are summed.
TEST(CommunicationHooks, MayStartCollectivesOneAfterTheOther) {
  const auto reports = run_world(3, [](const Group& group) {
    Terms net(3);
    DistributedDataParallel ddp(net, {.process_group = group, .bucket_cap_mb = 0.0});
    ddp->register_comm_hook(called([](GradBucket& bucket, HookCollectives& collectives) {
      const at::Tensor values = bucket.buffer();
      auto gathered = collectives.all_gather(values.abs().max().view({1}));
      return HookResult([=]() mutable {
        const double largest = at::cat(gathered.wait_for_parts()).max().item<double>();
        const at::Tensor scaled = values / largest;
        auto sum = collectives.all_reduce(scaled);
        sum.wait();
        return scaled * (largest / collectives.divisor());
      });
    }));
    std::string report;
    for (int step = 0; step < 3; ++step) {
      net->zero_grad();
      // In another order on each rank.
      Loss loss{{0, 8.0}, {1, 8.0 * group->getRank()}, {2, 16.0}};
      std::rotate(loss.begin(), loss.begin() + group->getRank(), loss.end());
      ddp.forward(loss).backward();
      report += net->gradients() + "; ";
    }
    return report;
  });
  EXPECT_EQ(reports, same(3, "8 8 | 8 8 | 16 16; 8 8 | 8 8 | 16 16; 8 8 | 8 8 | 16 16; "));
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

TEST(CommunicationHooks, RunOnRanksWithoutInputsInAJoin) {
  for (const bool by_world : {false, true}) {
    const auto reports = run_world(2, [&](const Group& group) {
      Terms net(1);
      DistributedDataParallel ddp(net, {.process_group = group});
      ddp->register_comm_hook(all_reduce_hook());
      std::string report;
      auto join = ddp.join({.divide_by_initial_world_size = by_world});
      for (int i = 0; i < count_of({1, 2}, group); ++i) {
        net->zero_grad();
        ddp.forward(Loss{{0, own(group)}}).backward();
        report += net->gradients() + "; ";
      }
      join.finish();
      return report;
    });
    EXPECT_EQ(reports, (std::vector<std::string>{"4.5 4.5; ",
                                                 by_world ? "4.5 4.5; 3 3; " : "4.5 4.5; 6 6; "}));
  }
}

}  // namespace
}  // namespace lockstep
