// Joins in which ranks without inputs stand in for themselves until all are out.
#include "ddp/convert_sync_batchnorm.h"
#include "ddp/distributed_data_parallel.h"
#include "ddp/errors.h"
#include "ddp/join.h"
#include "tests/ddp/forked_world.h"
#include "tests/ddp/module/joins.h"
#include "tests/ddp/modules.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <sstream>

namespace lockstep {
namespace {

using testing::count_of;
using testing::Counting;
using testing::Group;
using testing::numbers;
using testing::own;
using testing::run_world;
using testing::same;
using testing::Terms;
using Loss = testing::TermsImpl::Loss;
using TermsHandle = DistributedDataParallel<testing::TermsImpl>;

// One loop with steps of plain descent: the averages of each step this rank made, and where its
// parameters end.
std::string descend(TermsHandle& ddp, const Group& group, const std::vector<int>& inputs,
                    const JoinOptions& options) {
  auto& net = *ddp->module;
  std::string report;
  auto join = ddp.join(options);
  for (int i = 0; i < count_of(inputs, group); ++i) {
    net.zero_grad();
    ddp.forward(Loss{{0, own(group)}, {1, own(group, 10)}}).backward();
    report += net.gradients() + "; ";
    const torch::NoGradGuard no_grad;
    for (at::Tensor& weight : net.weights) weight -= weight.grad();
  }
  join.finish();
  return report + "at " + numbers(net.weights[0]) + " | " + numbers(net.weights[1]);
}

// The same by plain arithmetic: in step i the ranks with more than i inputs add 3 (r + 1) each.
std::vector<std::string> descended(const std::vector<int>& inputs, bool divides_by_world) {
  std::vector<std::string> reports(inputs.size());
  double at = 0;
  for (int i = 0; i < *std::max_element(inputs.begin(), inputs.end()); ++i) {
    double sum = 0;
    int live = 0;
    for (std::size_t rank = 0; rank < inputs.size(); ++rank) {
      if (inputs[rank] <= i) continue;
      sum += 3 * (static_cast<double>(rank) + 1);
      ++live;
    }
    const double average = sum / (divides_by_world ? static_cast<int>(inputs.size()) : live);
    at -= average;
    std::ostringstream text;
    text << average << ' ' << average << " | " << 10 * average << ' ' << 10 * average << "; ";
    for (std::size_t rank = 0; rank < inputs.size(); ++rank)
      if (inputs[rank] > i) reports[rank] += text.str();
  }
  std::ostringstream end;
  end << "at " << at << ' ' << at << " | " << 10 * at << ' ' << 10 * at;
  for (std::string& each : reports) each += end.str();
  return reports;
}

TEST(Shadowing, AveragesOverAllRanksOrOverThoseWithInputs) {
  const std::vector<std::vector<int>> all = {{2, 2}, {1, 3},    {3, 1},    {0, 2},    {2, 0},
                                             {0, 0}, {3, 3, 1}, {1, 2, 3}, {0, 3, 1}, {4, 0, 0}};
  for (const auto& inputs : all) {
    for (const bool by_world : {true, false}) {
      const auto reports = run_world(static_cast<int>(inputs.size()), [&](const Group& group) {
        Terms net(2);
        TermsHandle ddp(net.ptr(), {.process_group = group, .bucket_cap_mb = 0.0});
        return descend(ddp, group, inputs, {.divide_by_initial_world_size = by_world});
      });
      EXPECT_EQ(reports, descended(inputs, by_world));
    }
  }
}

// The layout of buckets, which one rank learns and the others take over, included.
TEST(Shadowing, WorksWithEveryOptionThatIsAllowed) {
  const std::vector<DistributedDataParallelOptions> all = {
      {.find_unused_parameters = true},
      {.find_unused_parameters = true, .skip_all_reduce_unused_params = true},
      {.gradient_as_bucket_view = true},
      {.buffer_sync_lag = false, .batched_grad_copy = true},
      {.bucket_cap_mb_list = {0.0, 1.0}},
      {.delay_all_reduce_named_params = {"w0"}, .param_to_hook_all_reduce = "w1"}};
  const std::vector<int> inputs = {1, 4, 0};
  for (DistributedDataParallelOptions options : all) {
    const auto reports = run_world(3, [&](const Group& group) {
      options.process_group = group;
      Terms net(2);
      TermsHandle ddp(net.ptr(), options);
      return descend(ddp, group, inputs, {});
    });
    EXPECT_EQ(reports, descended(inputs, true));
  }
}

// Once a join is over, the next loop is as good as any, whichever rank shadowed.
TEST(Shadowing, LeavesAUsableObject) {
  for (const auto& inputs : std::vector<std::vector<int>>{{3, 0}, {0, 3}, {1, 2}}) {
    const auto reports = run_world(2, [&](const Group& group) {
      Terms net(2);
      TermsHandle ddp(net.ptr(), {.process_group = group, .bucket_cap_mb = 0.0});
      descend(ddp, group, inputs, {});
      std::string report;
      for (int i = 0; i < 2; ++i) {
        net->zero_grad();
        ddp.forward(Loss{{0, own(group)}, {1, own(group, 10)}}).backward();
        report += net->gradients() + "; ";
      }
      const auto end = descend(ddp, group, {2, 2}, {});
      return report + (end.starts_with("4.5 4.5 | 45 45; 4.5 4.5 | 45 45; ") ? "even" : end);
    });
    EXPECT_EQ(reports, same(2, "4.5 4.5 | 45 45; 4.5 4.5 | 45 45; even"));
  }
}

// A parameter that only the rank without inputs would use is used by nobody.
TEST(Shadowing, CountsNothingAsUsed) {
  for (const bool skips : {false, true}) {
    const auto reports = run_world(2, [&](const Group& group) {
      Terms net(3);
      DistributedDataParallel ddp(net, {.process_group = group,
                                        .bucket_cap_mb = 0.0,
                                        .find_unused_parameters = true,
                                        .skip_all_reduce_unused_params = skips});
      std::string report;
      auto join = ddp.join();
      for (int i = 0; i < (group->getRank() == 0 ? 1 : 2); ++i) {
        net->zero_grad();
        ddp.forward(group->getRank() == 0 ? Loss{{2, own(group)}} : Loss{{1, own(group)}})
            .backward();
        report += net->gradients() + "; ";
      }
      join.finish();
      return report;
    });
    const std::string first = "none | 3 3 | 1.5 1.5; ";
    EXPECT_EQ(reports, (std::vector<std::string>{first, first + "none | 3 3 | none; "}));
  }
}

struct Lookup : torch::nn::Module {
  torch::nn::Embedding table = register_module(
      "table", torch::nn::Embedding(torch::nn::EmbeddingOptions(4, 1).sparse(true)));
  at::Tensor forward(const at::Tensor& indices) { return table(indices).sum(); }
};

TEST(Shadowing, ExchangesSparseGradients) {
  const auto reports = run_world(3, [](const Group& group) {
    DistributedDataParallel ddp(std::make_shared<Lookup>(), {.process_group = group});
    std::string report;
    auto join = ddp.join({.divide_by_initial_world_size = false});
    for (int i = 0; i < 2 - group->getRank(); ++i) {
      ddp->zero_grad();
      ddp.forward(torch::tensor({group->getRank(), 3})).backward();
      report += numbers(ddp->module->table->weight.grad().to_dense()) + "; ";
    }
    join.finish();
    return report;
  });
  EXPECT_EQ(reports, (std::vector<std::string>{"0.5 0.5 0 1; 1 0 0 1; ", "0.5 0.5 0 1; ", ""}));
}

// Windows of no_sync, two forwards before one backward, a forward without one, two backwards.
TEST(Shadowing, FollowsWhateverPassesThereAre) {
  const auto reports = run_world(2, [](const Group& group) {
    Terms net(1);
    DistributedDataParallel ddp(net, {.process_group = group});
    std::string report;
    const auto forward = [&] { return ddp.forward(Loss{{0, own(group)}}); };
    const auto note = [&] {
      report += net->gradients() + "; ";
      net->zero_grad();
    };
    auto join = ddp.join();
    if (group->getRank() == 1) {
      {
        const auto local = ddp.no_sync();
        forward().backward();
      }
      forward().backward();
      note();
      (forward() + forward()).backward();
      note();
      forward();
      const at::Tensor first = forward(), second = forward();
      first.backward();
      second.backward();
      note();
    }
    join.finish();
    return report;
  });
  EXPECT_EQ(reports, (std::vector<std::string>{"", "6 6; 6 6; 4.5 4.5; "}));
}

// Buffers come from the highest rank with inputs before each forward, and in the end from the last
// rank with inputs.
TEST(Shadowing, TakesBuffersFromTheHighestRankWithInputs) {
  const auto reports = run_world(3, [](const Group& group) {
    Counting net(10.0);
    DistributedDataParallel ddp(net, {.process_group = group});
    std::string report;
    auto join = ddp.join();
    for (int i = 0; i < count_of({3, 2, 1}, group); ++i) {
      ddp.forward(torch::ones({1}, at::kDouble), group->getRank() + 1).backward();
      report += net->found + "; ";
    }
    join.finish();
    return report + net->state();
  });
  // Rank 2 adds 3, then rank 1 sends what the first step left it, and adds 2, then rank 0 adds 1.
  const std::string first = "10 10 | 10 | 1; ", second = "12 12 | 12 | 1; ",
                    third = "13 13 | 13 | 1; ", end = "14 14 | 14 | 1";
  EXPECT_EQ(reports, (std::vector<std::string>{first + second + third + end, first + second + end,
                                               first + end}));
}

}  // namespace
}  // namespace lockstep
