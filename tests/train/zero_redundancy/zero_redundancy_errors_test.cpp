// Checks what a sharded optimizer refuses, and where.
#include "ddp/errors.h"
#include "tests/ddp/forked_world.h"
#include "train/zero_redundancy_optimizer.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

namespace lockstep {
namespace {

namespace optim = torch::optim;
using testing::Group;
using testing::run_world;
using testing::same;
using ParamGroups = std::vector<optim::OptimizerParamGroup>;

std::unique_ptr<optim::Optimizer> sgd(const ParamGroups& groups) {
  return std::make_unique<optim::SGD>(groups, optim::SGDOptions(1.0));
}

at::Tensor leaf(std::int64_t size) {
  return at::zeros({size}).set_requires_grad(true);
}

std::string sentence_of(const std::function<void()>& act) {
  try {
    act();
    return "nothing";
  } catch (const DisagreementError& error) {
    return error.what();
  } catch (const UsageError& error) {
    return std::string("UsageError: ") + error.what();
  }
}

using Attempt = std::function<void(const Group& group, bool is_first)>;

void expect_refused(const Attempt& attempt, const std::string& sentence) {
  const auto reports = run_world(2, [&](const Group& group) {
    return sentence_of([&] { attempt(group, group->getRank() == 0); });
  });
  EXPECT_EQ(reports, same(2, sentence));
}

TEST(ZeroRedundancyErrors, ComeToEveryRankWhereOneCannotTakePart) {
  expect_refused(
      [](const Group& group, bool is_first) {
        ZeroRedundancyOptimizer(group, {leaf(1)}, [&](const ParamGroups& groups) {
          if (!is_first) throw std::runtime_error("no memory");
          return sgd(groups);
        });
      },
      "rank 1 of 2 cannot take part: ZeroRedundancyOptimizer: no memory");
}

// Rank 1 owns the second parameter, whose gradient is of another shape.
TEST(ZeroRedundancyErrors, ComeToEveryRankWhereAnUpdateThrowsOnOne) {
  const auto reports = run_world(2, [](const Group& group) {
    class Throws : public optim::SGD {
     public:
      using optim::SGD::SGD;
      at::Tensor step(LossClosure closure) override {
        if (!param_groups()[0].params().empty() && param_groups()[0].params()[0].numel() == 1)
          throw std::runtime_error("cannot update");
        return optim::SGD::step(std::move(closure));
      }
    };
    ZeroRedundancyOptimizer optimizer(group, {leaf(2), leaf(1)}, [](const ParamGroups& groups) {
      return std::make_unique<Throws>(groups, optim::SGDOptions(1.0));
    });
    return sentence_of([&] { optimizer.step(); });
  });
  EXPECT_EQ(reports,
            same(2, "rank 1 of 2 cannot take part: ZeroRedundancyOptimizer::step: cannot update"));
}

TEST(ZeroRedundancyErrors, NameTheRankThatLacksTheWholeState) {
  const auto reports = run_world(2, [](const Group& group) {
    ZeroRedundancyOptimizer optimizer(group, {leaf(2)}, sgd);
    const auto ask = [&] { return sentence_of([&] { optimizer.consolidated(); }); };
    std::string report = ask().substr(0, 50);
    optimizer.consolidate_state_dict(1);
    report += "; " + ask().substr(0, 50);
    optimizer.step();
    return report + "; " + ask() + "; " + sentence_of([&] { optimizer.consolidate_state_dict(2); });
  });
  for (int rank = 0; rank < 2; ++rank) {
    const std::string lacks =
        "UsageError: ZeroRedundancyOptimizer::consolidated: rank " + std::to_string(rank) +
        " does not have the state of all ranks; call " + "consolidate_state_dict(" +
        std::to_string(rank) + ") on every rank after the last step";
    const std::string start = lacks.substr(0, 50);
    EXPECT_EQ(reports[static_cast<std::size_t>(rank)],
              start + "; " + (rank == 1 ? "nothing" : start) + "; " + lacks +
                  "; ranks 0 and 1 of 2 cannot take part: "
                  "ZeroRedundancyOptimizer::consolidate_state_dict: the rank that "
                  "receives is 2, expected 0 to 1");
  }
}

TEST(ZeroRedundancyErrors, RefuseAStateOfOtherParametersOrAnotherClass) {
  const auto reports = run_world(1, [](const Group& group) {
    ZeroRedundancyOptimizer optimizer(group, {leaf(2)}, sgd);
    return sentence_of([&] { optimizer.load_state_dict(nullptr); }) + "; " + sentence_of([&] {
             optimizer.load_state_dict(sgd({std::vector<at::Tensor>{leaf(2)}}));
           }) +
           "; " + sentence_of([&] {
             optimizer.load_state_dict(
                 std::make_unique<optim::Adagrad>(optimizer.local().param_groups()));
           }) +
           "; " + sentence_of([&] { optimizer.owner_of(leaf(2)); });
  });
  const std::string begin = "UsageError: ZeroRedundancyOptimizer::load_state_dict: the optimizer ";
  EXPECT_EQ(reports,
            same(1, begin + "is null; " + begin +
                        "has other parameters; load into what whole() returns; " + begin +
                        "is a torch::optim::Adagrad, expected a torch::optim::SGD; UsageError: "
                        "ZeroRedundancyOptimizer::owner_of: it does not have this parameter"));
}

TEST(ZeroRedundancyErrors, RefuseANullGroupAndANullFactory) {
  EXPECT_THROW(ZeroRedundancyOptimizer(nullptr, {leaf(1)}, sgd), UsageError);
  EXPECT_THROW(ZeroRedundancyOptimizer(nullptr, {leaf(1)}, nullptr), UsageError);
}

}  // namespace
}  // namespace lockstep
