// Joinables: what is refused.
#include "ddp/distributed_data_parallel.h"
#include "ddp/errors.h"
#include "ddp/joinable.h"
#include "tests/ddp/forked_world.h"
#include "tests/ddp/module/joins.h"
#include "tests/ddp/modules.h"
#include "train/collectives.h"
#include "train/zero_redundancy_optimizer.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

namespace lockstep {
namespace {

using testing::count_of;
using testing::Group;
using testing::kThrowing;
using testing::own;
using testing::run_world;
using testing::same;
using testing::Terms;
using Loss = testing::TermsImpl::Loss;

// Counts over all ranks, as a program's own class.
class Metrics : public Joinable {
 public:
  explicit Metrics(Group group, std::string name = "metrics")
      : group_(std::move(group)), name_(std::move(name)) {}

  std::string name() const override { return name_; }
  double add(double value) {
    announce();
    return exchange(value);
  }
  void shadow() override { exchange(0); }

 private:
  double exchange(double value) {
    const at::Tensor sum = torch::full({1}, value, at::kDouble);
    all_reduce(group_, sum);
    return sum.item<double>();
  }

  const Group group_;
  const std::string name_;
};

std::string error_of_join(const Group& group, const JoinOptions& options,
                          const std::vector<std::shared_ptr<Joinable>>& joinables) {
  Terms net(1);
  DistributedDataParallel ddp(net, {.process_group = group});
  try {
    auto join = ddp.join(options, joinables);
    join.finish();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "nothing";
}

TEST(Joinable, IsRefusedOnAllRanksWhereOneCannot) {
  const auto reports = run_world(2, [](const Group& group) {
    const auto one = std::make_shared<Metrics>(group), other = std::make_shared<Metrics>(group);
    const auto named =
        std::make_shared<Metrics>(group, group->getRank() == 0 ? "loss" : "accuracy");
    std::string report = error_of_join(group, {}, {one, nullptr}) + " | ";
    report += error_of_join(group, {}, {one, other, one}) + " | ";
    report += error_of_join(group, {}, {named}) + " | ";
    Terms net(1);
    DistributedDataParallel ddp(net, {.process_group = group});
    auto join = ddp.join({}, {one});
    report += error_of_join(group, {}, {one}) + " | ";
    try {
      ddp->update_process_group(group);
    } catch (const std::exception& error) {
      report += error.what();
    }
    return report;
  });
  EXPECT_EQ(reports[0], reports[1]);
  for (const char* part :
       {"joinable 1 of join() is null", "joinable 2 of join() ('metrics') is there twice",
        "join's joinables", "'loss'", "'accuracy'",
        "joinable 0 of join() ('metrics') is in a join that is under way; finish() that one first",
        "update_process_group() was called while a join with joinables"})
    EXPECT_NE(reports[0].find(part), std::string::npos) << part << " in " << reports[0];
}

TEST(Joinable, ThatOneRankAloneCallsIsNamedOnAll) {
  const auto reports = run_world(2, [](const Group& group) -> std::string {
    Terms net(1);
    DistributedDataParallel ddp(net, {.process_group = group});
    const auto metrics = std::make_shared<Metrics>(group);
    auto join = ddp.join({}, {metrics});
    try {
      ddp.forward(Loss{{0, own(group)}}).backward();
      if (group->getRank() == 0) metrics->add(1);
      ddp.forward(Loss{{0, own(group)}}).backward();
    } catch (const std::exception& error) {
      return error.what();
    }
    return "nothing";
  });
  EXPECT_EQ(reports[0], reports[1]);
  EXPECT_NE(reports[0].find("a call of 'metrics'"), std::string::npos) << reports[0];
}

TEST(Joinable, OfOneNameIsDistinguishedFromAnotherByItsPlace) {
  const auto reports = run_world(2, [](const Group& group) -> std::string {
    Terms net(1);
    DistributedDataParallel ddp(net, {.process_group = group});
    const auto first = std::make_shared<Metrics>(group), second = std::make_shared<Metrics>(group);
    auto join = ddp.join({}, {first, second});
    try {
      (group->getRank() == 0 ? first : second)->add(1);
    } catch (const DisagreementError& error) {
      return error.what();
    }
    return "nothing";
  });
  EXPECT_EQ(reports, same(2,
                          "ranks disagree on what comes next in a join: rank 0 has a call of "
                          "'metrics' (joinable 0 of the join); rank 1 has a call of 'metrics' "
                          "(joinable 1 of the join)"));
}

// As of a loop without a DistributedDataParallel's forward.
TEST(Joinable, RaisesOnAllRanksWhereAJoinThrowsAndInputsAreUneven) {
  const auto reports = run_world(3, [](const Group& group) {
    Terms net(1);
    DistributedDataParallel ddp(net, {.process_group = group});
    const auto metrics = std::make_shared<Metrics>(group);
    std::string report;
    try {
      auto join = ddp.join(kThrowing, {metrics});
      for (int i = 0; i < count_of({2, 1, 2}, group); ++i)
        report += std::to_string(static_cast<int>(metrics->add(1))) + " ";
      join.finish();
    } catch (const UnevenInputsError& error) {
      report += error.what();
    }
    ddp.forward(Loss{{0, own(group)}}).backward();
    return report + "; " + net->gradients();
  });
  EXPECT_EQ(reports, same(3,
                          "3 inputs are uneven: rank 1 has none left after 1 call of joinables "
                          "in the join, and ranks 0 and 2 have more; every rank stops here "
                          "(throw_on_early_termination); 6 6"));
}

}  // namespace
}  // namespace lockstep
