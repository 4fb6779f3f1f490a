// The first collective that a program calls on a group, where some ranks do not call one.
#include "ddp/errors.h"
#include "tests/ddp/forked_world.h"
#include "train/checkpoint.h"
#include "train/collectives.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <functional>

namespace lockstep {
namespace {

using testing::Group;
using testing::numbers;
using testing::run_world;
using std::chrono_literals::operator""ms;

// The first one connects the group that the program's collectives have of their own.
struct First {
  std::function<void(const Group& group)> call;
  std::string name, missing;
  std::vector<int> ranks = {0};  // that make the call; the others do not
};

const std::vector<First> kFirst = {{[](auto& group) {
                                      all_reduce(group, at::ones({1}), ReduceOp::SUM,
                                                 {.name = "loss", .timeout = 300ms});
                                    },
                                    "all_reduce 'loss'", "1, 2 (these did: 0)"},
                                   {[](auto& group) { barrier(group, {.timeout = 300ms}); },
                                    "barrier",
                                    "0, 1 (these did: 2)",
                                    {2}},
                                   {[](auto& group) {
                                      new_group(group, {0, 1}, {.timeout = 300ms});
                                    },
                                    "new_group",
                                    "2 (these did: 0, 1)",
                                    {0, 1}}};

std::string sum_over(const Group& group) {
  const at::Tensor one = at::ones({1});
  all_reduce(group, one, ReduceOp::SUM, {.name = "after"});
  return numbers(one);
}

TEST(FirstCollective, OfALoneCollectiveThatIsTheFirstNameItAndTheRanksThatDidNotCome) {
  for (const First& first : kFirst) {
    const auto reports = run_world(3, [&](const Group& group) {
      std::string report;
      const int rank = group->getRank();
      if (std::find(first.ranks.begin(), first.ranks.end(), rank) != first.ranks.end()) {
        try {
          first.call(group);
        } catch (const CommunicationError& error) {
          report = error.what();
          const auto time = report.find(" failed after ");
          report = report.substr(0, time) + report.substr(report.find(" ms: ", time) + 4) + "; ";
        }
      }
      group->barrier()->wait();
      report += sum_over(group);
      destroy_process_group(group);
      return report + " " + sum_over(group);
    });
    for (int rank = 0; rank < 3; ++rank) {
      const bool calls =
          std::find(first.ranks.begin(), first.ranks.end(), rank) != first.ranks.end();
      EXPECT_EQ(reports[static_cast<std::size_t>(rank)],
                (calls ? "rank " + std::to_string(rank) + ": " + first.name +
                             " these ranks did not come: " + first.missing +
                             "; every rank of the group makes this call; "
                       : "") +
                    "3 3");
    }
  }
}

TEST(FirstCollective, OfARankThatHasLeftAnEarlierOneCountsAsNotMade) {
  const auto reports = run_world(3, [](const Group& group) {
    std::string report;
    for (const int caller : {1, 0}) {
      try {
        if (group->getRank() == caller) barrier(group, {.timeout = 50ms});
      } catch (const CommunicationError& error) {
        report = error.what();
      }
      group->barrier()->wait();
    }
    return report;
  });
  EXPECT_NE(reports[1].find("did not come: 0, 2 (these did: 1)"), std::string::npos) << reports[1];
  EXPECT_NE(reports[0].find("did not come: 1, 2 (these did: 0)"), std::string::npos) << reports[0];
}

// Each rank fails as often as its number says, one rank after the other.
TEST(FirstCollective, OfCallsThatFailedOnSomeRanksDoNotLast) {
  const auto reports = run_world(3, [](const Group& group) {
    int failed = 0;
    for (int turn = 0; turn < 3; ++turn) {
      for (int i = 0; turn == group->getRank() && i < turn; ++i) {
        try {
          barrier(group, {.timeout = 50ms});
        } catch (const CommunicationError&) {
          ++failed;
        }
      }
      group->barrier()->wait();
    }
    return std::to_string(failed) + " " + sum_over(group);
  });
  EXPECT_EQ(reports, (std::vector<std::string>{"0 3", "1 3", "2 3"}));
}

}  // namespace
}  // namespace lockstep
