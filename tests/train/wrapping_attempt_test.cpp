// Wrapping a model on some ranks alone, and on all of them after that.
#include "ddp/distributed_data_parallel.h"
#include "ddp/errors.h"
#include "tests/ddp/forked_world.h"
#include "tests/ddp/modules.h"
#include "train/collectives.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

namespace lockstep {
namespace {

using testing::Group;
using testing::numbers;
using testing::run_world;
using testing::same;
using testing::share;
using testing::Terms;
using std::chrono_literals::operator""ms;
using Loss = testing::TermsImpl::Loss;

// The sentence without the time.
std::string reported(const std::function<void()>& act) {
  try {
    act();
  } catch (const CommunicationError& error) {
    const std::string sentence = error.what();
    const auto time = sentence.find(" failed after ");
    return sentence.substr(0, time) + sentence.substr(sentence.find(" ms: ", time) + 4);
  }
  return "nothing";
}

// Trains with two instances on one group, which are numbered alike on all ranks.
std::string train(const Group& group) {
  std::string report;
  Terms one(1, 1), other(1, 1);
  DistributedDataParallel first(one, {.process_group = group});
  DistributedDataParallel second(other, {.process_group = group});
  for (auto* const ddp : {&first, &second}) {
    (*ddp)(Loss{{0, share(group)}}).backward();
    report += numbers((*ddp)->module->weights[0].grad()) + " ";
  }
  return report;
}

TEST(WrappingAttempt, OfOneRankAloneNamesItAndTheRanksThatDidNotComeAndTheNextOneWorks) {
  for (int alone = 0; alone < 2; ++alone) {
    const auto reports = run_world(2, [&](const Group& group) {
      std::string report;
      for (int time = 0; time < 2; ++time) {
        if (group->getRank() == alone)
          report += reported([&] {
                      Terms net(1, 1);
                      DistributedDataParallel ddp(net, {.process_group = group, .timeout = 300ms});
                    }) +
                    "; ";
        barrier(group);
      }
      return report + train(group);
    });
    const std::string rank = std::to_string(alone), other = std::to_string(1 - alone);
    const std::string sentence =
        "rank " + rank + ": wrapping a model these ranks did not come: " + other +
        " (these did: " + rank + "); every rank of the group makes this call; ";
    EXPECT_EQ(reports[static_cast<std::size_t>(alone)], sentence + sentence + "3 3 ");
    EXPECT_EQ(reports[static_cast<std::size_t>(1 - alone)], "3 3 ");
  }
}

TEST(WrappingAttempt, ToAttachAnInstanceAnewIsNamedToo) {
  const auto reports = run_world(2, [](const Group& group) {
    std::string report;
    Terms net(1, 1);
    DistributedDataParallel ddp(net, {.process_group = group, .timeout = 500ms});
    if (group->getRank() == 1) report += reported([&] { ddp->update_process_group(group); }) + "; ";
    barrier(group);
    ddp->update_process_group(group);
    ddp(Loss{{0, share(group)}}).backward();
    return report + numbers(net->weights[0].grad()) + " " + train(group);
  });
  EXPECT_EQ(reports, (std::vector<std::string>{
                         "3 3 3 ",
                         "rank 1: update_process_group() these ranks did not come: 0 (these did: "
                         "1); every rank of the group makes this call; 3 3 3 "}));
}

}  // namespace
}  // namespace lockstep
