// Parameters that take no part in a loss: find_unused_parameters, static_graph, and skipping.
#include "ddp/distributed_data_parallel.h"
#include "ddp/errors.h"
#include "tests/ddp/forked_world.h"
#include "tests/ddp/modules.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

namespace lockstep {
namespace {

using testing::all_ways;
using testing::Group;
using testing::numbers;
using testing::run_world;
using testing::same;
using testing::share;
using testing::Terms;
using testing::validation_errors_in;
using Loss = testing::TermsImpl::Loss;
using Options = DistributedDataParallelOptions;

TEST(UnusedParameters, KeepTheirGradientIfNobodyUsesThemAndGetTheAverageOtherwise) {
  for (const Options& way : all_ways({.find_unused_parameters = true})) {
    for (const int world : {1, 2, 3}) {
      const auto reports = run_world(world, [&](const Group& group) {
        Options options = way;
        options.process_group = group;
        Terms net(4);
        DistributedDataParallel ddp(net, options);
        std::string report;
        for (int step = 0; step < 3; ++step) {
          net->zero_grad();
          // w0: all ranks; w1: rank 0 alone; w2: the last rank alone, in odd steps; w3: nobody.
          Loss loss = {{0, 6.0}};
          if (group->getRank() == 0) loss.push_back({1, 60.0});
          if (group->getRank() == world - 1 && step % 2 == 1) loss.push_back({2, 600.0});
          ddp.forward(loss).backward();
          report += net->gradients() + "; ";
        }
        return report;
      });
      const std::string w1 = std::to_string(60 / world), w2 = std::to_string(600 / world);
      const std::string even = "6 6 | " + w1 + " " + w1 + " | none | none; ";
      const std::string odd = "6 6 | " + w1 + " " + w1 + " | " + w2 + " " + w2 + " | none; ";
      EXPECT_EQ(reports, same(world, even + odd + even));
    }
  }
}

// PyTorch: stale 2 and 4 in .grad of a rank that does not use the parameter count as they are.
TEST(UnusedParameters, CountWithWhatTheirGradientHoldsWhereAnotherRankUsesThem) {
  for (const Options& way : all_ways({.find_unused_parameters = true})) {
    const auto reports = run_world(2, [&](const Group& group) {
      Options options = way;
      options.process_group = group;
      Terms net(3);
      DistributedDataParallel ddp(net, options);
      for (const std::size_t i : {0U, 1U, 2U}) {
        net->weights[i].mutable_grad() =
            torch::full({2}, 2.0 * (group->getRank() + 1), at::kDouble);
      }
      Loss loss = {{0, 10.0}};
      if (group->getRank() == 0) loss.push_back({1, 20.0});
      ddp.forward(loss).backward();
      return net->gradients();
    });
    // w0: (2 + 10 + 4 + 10) / 2; w1: (2 + 20 + 4) / 2; w2: nobody, untouched.
    EXPECT_EQ(reports, (std::vector<std::string>{"13 13 | 13 13 | 2 2", "13 13 | 13 13 | 4 4"}));
  }
}

// Outputs outside of the loss: their parameters are in the graph and never arrive.
TEST(UnusedParameters, BehindAnOutputThatTheLossLeavesOut) {
  struct Heads : torch::nn::Module {
    at::Tensor trunk = register_parameter("trunk", torch::ones({1}, at::kDouble));
    at::Tensor left = register_parameter("left", torch::ones({1}, at::kDouble));
    at::Tensor right = register_parameter("right", torch::ones({1}, at::kDouble));
    std::pair<at::Tensor, at::Tensor> forward() { return {trunk * left * 4, trunk * right * 8}; }
    std::string gradients() const {
      std::string text;
      for (const at::Tensor& each : parameters()) {
        text += (each.grad().defined() ? numbers(each.grad()) : "none") + " ";
      }
      return text;
    }
  };
  for (const Options& way : all_ways({.find_unused_parameters = true})) {
    const auto reports = run_world(2, [&](const Group& group) {
      Options options = way;
      options.process_group = group;
      const auto net = std::make_shared<Heads>();
      DistributedDataParallel ddp(net, options);
      std::string report;
      for (int step = 0; step < 3; ++step) {
        net->zero_grad();
        const auto [left, right] = ddp.forward();
        (step == 0 || group->getRank() == 0 ? left : right).sum().backward();
        report += net->gradients() + "; ";
      }
      return report;
    });
    EXPECT_EQ(reports, same(2, "4 4 none ; 6 2 4 ; 6 2 4 ; "));
  }
}

// A rank whose output depends on none of its parameters has no gradient to report, and still takes
// part; autograd::grad() through the same output does not.
TEST(UnusedParameters, MayBeAllOfThemOnARank) {
  const auto reports = run_world(2, [&](const Group& group) {
    Terms net(2);
    struct Mixed : torch::nn::Module {
      explicit Mixed(Terms terms) : terms(register_module("terms", std::move(terms))) {}
      at::Tensor forward(const at::Tensor& input, const Loss& loss) {
        return loss.empty() ? input * 2 : input * 2 + terms->forward(loss);
      }
      Terms terms;
    };
    DistributedDataParallel ddp(std::make_shared<Mixed>(net),
                                {.process_group = group, .find_unused_parameters = true});
    std::string report;
    for (int step = 0; step < 3; ++step) {
      net->zero_grad();
      const auto input = torch::ones({}, torch::dtype(at::kDouble).requires_grad(true));
      const auto out = ddp.forward(input, group->getRank() == 0 ? Loss{} : Loss{{0, 2.0}});
      const auto penalty = torch::autograd::grad({out}, {input}, {}, true);
      out.backward();
      report += net->gradients() + " " + numbers(penalty[0]) + "; ";
    }
    return report;
  });
  EXPECT_EQ(reports, same(2, "1 1 | none 2; 1 1 | none 2; 1 1 | none 2; "));
}

TEST(UnusedParameters, ThatAreUsedBehindForwardsBackAreReportedOnEveryRank) {
  const auto reports = run_world(2, [&](const Group& group) {
    Terms net(2);
    DistributedDataParallel ddp(net, {.process_group = group, .find_unused_parameters = true});
    std::string report;
    for (int step = 0; step < 2; ++step) {
      const auto out = ddp.forward(Loss{{0, 2.0}});
      const bool odd = group->getRank() == 1 && step == 0;
      try {
        (odd ? out + net->weights[1].sum() : out).backward();
        report += "fine";
      } catch (const UnfinishedReductionError& error) {
        report += validation_errors_in(error) + "; ";
      }
    }
    return report;
  });
  EXPECT_EQ(reports,
            same(2,
                 "rank 0: all is well; rank 1: the gradient of 'w1' came, though no output "
                 "of forward depends on it (a loss that uses the parameter itself?); fine"));
}

// A gradient that was kept aside for a parameter in an earlier pass must not come back.
TEST(UnusedParameters, DoNotGetAnOldGradientBack) {
  for (const Options& way : all_ways({.find_unused_parameters = true})) {
    const auto reports = run_world(2, [&](const Group& group) {
      Options options = way;
      options.process_group = group;
      Terms net(2);
      DistributedDataParallel ddp(net, options);
      const Loss both = {{0, 1.0}, {1, 2.0}}, first = {{0, 1.0}};
      ddp.forward(both).backward();
      ddp.forward(group->getRank() == 0 ? both : first).backward();
      net->zero_grad();
      ddp.forward(first).backward();
      return net->gradients();
    });
    EXPECT_EQ(reports, same(2, "1 1 | none"));
  }
}

// The next synchronised pass averages what no_sync has accumulated, though it does not use it.
TEST(UnusedParameters, AreAveragedForWhatALocalPassPutIntoTheirGradient) {
  for (const bool skips : {false, true}) {
    for (const Options& way :
         all_ways({.find_unused_parameters = true, .skip_all_reduce_unused_params = skips})) {
      const auto reports = run_world(2, [&](const Group& group) {
        Options options = way;
        options.process_group = group;
        Terms net(2);
        DistributedDataParallel ddp(net, options);
        {
          const auto guard = ddp.no_sync();
          ddp.forward(Loss{{1, share(group)}}).backward();
        }
        ddp.forward(Loss{{0, 10 * share(group)}}).backward();
        return net->gradients();
      });
      EXPECT_EQ(reports, same(2, "30 30 | 3 3"));
    }
  }
}

TEST(UnusedParameters, OfASumOfALocalAndASynchronisedForwardAreThoseOfNeither) {
  for (const Options& way : all_ways({.find_unused_parameters = true})) {
    for (const bool local_first : {false, true}) {
      const auto reports = run_world(2, [&](const Group& group) {
        Options options = way;
        options.process_group = group;
        Terms net(3);
        DistributedDataParallel ddp(net, options);
        at::Tensor local, synchronised;
        const auto run_local = [&] {
          const auto guard = ddp.no_sync();
          local = ddp.forward(Loss{{1, share(group)}});
        };
        if (local_first) run_local();
        synchronised = ddp.forward(Loss{{0, 10 * share(group)}});
        if (!local_first) run_local();
        (local + synchronised).backward();
        return net->gradients();
      });
      EXPECT_EQ(reports, same(2, "30 30 | 3 3 | none"));
    }
  }
}

TEST(UnusedParameters, CannotBeFoundInAnOutputThatSaysNothing) {
  struct Hidden {
    at::Tensor value;
  };
  struct Secretive : torch::nn::Module {
    at::Tensor weight = register_parameter("weight", torch::ones({1}, at::kDouble));
    Hidden forward() { return {weight * 2}; }
  };
  for (const bool is_static : {false, true}) {
    const auto reports = run_world(2, [&](const Group& group) {
      DistributedDataParallel ddp(std::make_shared<Secretive>(),
                                  {.process_group = group,
                                   .find_unused_parameters = !is_static,
                                   .static_graph = is_static});
      ddp.forward();
      return std::string("accepted");
    });
    for (const std::string& report : reports) {
      EXPECT_NE(report.find("UsageError: DistributedDataParallel cannot find the tensors in the "
                            "output of forward, a "),
                std::string::npos)
          << report;
      EXPECT_NE(report.find(std::string("Hidden, which ") +
                            (is_static ? "static_graph" : "find_unused_parameters") + " needs"),
                std::string::npos)
          << report;
    }
  }
  // Without these options nobody needs to see them.
  const auto reports = run_world(2, [](const Group& group) {
    const auto net = std::make_shared<Secretive>();
    DistributedDataParallel ddp(net, {.process_group = group});
    for (int step = 0; step < 2; ++step) {
      net->zero_grad();
      (ddp.forward().value * (group->getRank() + 1)).sum().backward();
    }
    return numbers(net->weight.grad());
  });
  EXPECT_EQ(reports, same(2, "3"));
}

// The promise is not taken on trust: what ranks do not use is compared, and differing sets are
// sent.
TEST(UnusedBuckets, StayAtHomeWhereAllRanksAgreeAndOnlyThere) {
  for (const Options& way :
       all_ways({.find_unused_parameters = true, .skip_all_reduce_unused_params = true})) {
    const auto reports = run_world(2, [&](const Group& group) {
      Options options = way;
      options.process_group = group;
      Terms net(4);
      DistributedDataParallel ddp(net, options);
      std::string report;
      const std::vector<std::vector<Loss>> steps = {
          {{{0, 2.0}}, {{0, 4.0}}},                       // w1, w2, w3 unused by both
          {{{0, 2.0}, {2, 20.0}}, {{0, 4.0}}},            // w2 by one
          {{{3, 2.0}}, {{3, 4.0}}},                       // another set
          {{{0, 2.0}, {1, 1.0}}, {{0, 4.0}, {1, 3.0}}}};  // and again another
      for (const auto& step : steps) {
        net->zero_grad();
        ddp.forward(step[static_cast<std::size_t>(group->getRank())]).backward();
        report += net->gradients() + " by " +
                  std::to_string(ddp->logging_data().num_buckets_reduced) + "; ";
      }
      return report;
    });
    // Launched are w3, w2, w1, w0 where each has a bucket; the last one always is.
    const bool one = !way.bucket_cap_mb;
    const auto count = [&](const char* many) { return std::string(one ? "1" : many) + "; "; };
    EXPECT_EQ(reports, same(2, "3 3 | none | none | none by " + count("1") +
                                   "3 3 | none | 10 10 | none by " + count("4") +
                                   "none | none | none | 3 3 by " + count("2") +
                                   "3 3 | 2 2 | none | none by " + count("2")));
  }
}

}  // namespace
}  // namespace lockstep
