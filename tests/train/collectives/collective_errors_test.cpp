// Checks the errors that ranks receive when their collectives differ or do not come, and what stays
// usable.
#include "ddp/comm/group_record.h"
#include "ddp/distributed_data_parallel.h"
#include "ddp/errors.h"
#include "tests/ddp/forked_world.h"
#include "tests/ddp/modules.h"
#include "train/collectives.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <unistd.h>

namespace lockstep {
namespace {

using testing::Group;
using testing::numbers;
using testing::run_world;
using testing::same;
using testing::share;
using testing::Terms;
using Loss = testing::TermsImpl::Loss;
using std::chrono_literals::operator""ms;

// The sentence that `call` raises, after which an all_reduce must still work.
std::string refused(const Group& group, const std::function<void()>& call) {
  std::string sentence = "nothing was thrown";
  try {
    call();
  } catch (const DisagreementError& error) {
    sentence = error.what();
  }
  const at::Tensor one = at::ones({1});
  all_reduce(group, one);
  return sentence + (one.item<float>() == 3 ? "" : ", and the group is out of step");
}

struct Case {
  std::function<void(const Group& group, int rank)> call;
  std::string sentence;
};

// Holds what the scenario collectives.disagreements_are_reported does not draw.
const std::vector<Case> kRefused = {
    {[](auto& group, int rank) {
       all_reduce(group, at::ones({2}, rank == 1 ? at::kMeta : at::kCPU));
     },
     "ranks disagree on the device of the tensor of all_reduce: ranks 0 and 2 have cpu; rank 1 has "
     "meta"},
    {[](auto& group, int) { all_reduce(group, at::ones({2}), ReduceOp::BAND); },
     "ranks 0, 1 and 2 of 3 cannot take part: all_reduce: BAND of Float tensors is not offered: it "
     "is for integers and bool"},
    {[](auto& group, int) { new_group(group, {}); },
     "ranks 0, 1 and 2 of 3 cannot take part: new_group: ranks is empty, expected at least one "
     "rank"},
    {[](auto& group, int) { new_subgroups(group, 0); },
     "ranks 0, 1 and 2 of 3 cannot take part: new_subgroups: the size is 0, expected a divisor of "
     "3 ranks"},
};

TEST(CollectiveErrors, RaiseOneSentenceOnEveryRankAndLeaveTheGroupUsable) {
  for (std::size_t first = 0; first < kRefused.size(); ++first) {
    const Case& each = kRefused[first];
    const auto reports = run_world(3, [&](const Group& group) {
      return refused(group, [&] { each.call(group, group->getRank()); });
    });
    EXPECT_EQ(reports, same(3, each.sentence));
  }
}

TEST(CollectiveErrors, RefuseANullGroup) {
  try {
    barrier(nullptr);
    FAIL() << "nothing was thrown";
  } catch (const UsageError& error) {
    EXPECT_STREQ(error.what(),
                 "barrier: the process group is null: expected a group of which this process is a "
                 "rank (new_group() returns null on the ranks that it leaves out)");
  }
}

// Directly on the group, it would be matched with the peers' first bucket.
TEST(CollectiveErrors, OfALoneCollectiveComeAtItsDeadlineAndLeaveTrainingAlone) {
  const auto reports = run_world(2, [](const Group& group) {
    barrier(group);
    Terms net(1);
    DistributedDataParallel ddp(net, {.process_group = group});
    std::string report;
    if (group->getRank() == 0) {
      try {
        all_reduce(group, at::ones({1}), ReduceOp::SUM, {.name = "loss", .timeout = 300ms});
      } catch (const CommunicationError& error) {
        report = std::string(error.what()).substr(0, 40) + " ... " +
                 std::string(error.what()).substr(std::string(error.what()).find("no answer")) +
                 "; ";
      }
    }
    for (int step = 0; step < 3; ++step) {
      net->zero_grad();
      ddp.forward(Loss{{0, 3 * share(group)}}).backward();
      report += net->gradients() + "; ";
    }
    try {
      barrier(group);
    } catch (const CommunicationError&) {
      report += "over; ";
    }
    destroy_process_group(group);
    const at::Tensor one = at::ones({1});
    all_reduce(group, one);
    return report + numbers(one);
  });
  const std::string steps = "9 9; 9 9; 9 9; over; 2";
  EXPECT_EQ(reports[1], steps);
  EXPECT_EQ(reports[0],
            "rank 0: the ranks' comparison before all ... no answer from a peer within the timeout "
            "of 300 ms (the option timeout); " +
                steps);
}

TEST(CollectiveErrors, NameTheCollectiveInWhichAPeerDied) {
  const auto reports = run_world(3, [](const Group& group) {
    barrier(group);
    if (group->getRank() == 1) ::_exit(0);
    try {
      barrier(group, {.name = "end of epoch"});
    } catch (const CommunicationError& error) {
      return std::string(error.what());
    }
    return std::string("nothing was thrown");
  });
  for (const int rank : {0, 2}) {
    const std::string& report = reports[static_cast<std::size_t>(rank)];
    EXPECT_NE(report.find("barrier 'end of epoch'"), std::string::npos) << report;
    EXPECT_TRUE(report.find(" left: ") != std::string::npos ||
                report.find(" reported: ") != std::string::npos)
        << report;
  }
}

// Gloo that can be divided into all of its ranks alone.
class Undivided final : public c10d::Backend {
 public:
  explicit Undivided(c10::intrusive_ptr<c10d::Backend> backend)
      : Backend(backend->getRank(), backend->getSize()), backend_(std::move(backend)) {}

  const std::string getBackendName() const override { return backend_->getBackendName(); }
  c10::intrusive_ptr<Options> getBackendOptions() override { return backend_->getBackendOptions(); }
  c10::intrusive_ptr<c10d::Backend> split(const c10::intrusive_ptr<c10d::Store>& store,
                                          const std::vector<int>& ranks,
                                          const c10::intrusive_ptr<Options>& options) override {
    if (ranks.size() < static_cast<std::size_t>(getSize())) throw std::runtime_error("no parts");
    return backend_->split(store, ranks, options);
  }

 private:
  const c10::intrusive_ptr<c10d::Backend> backend_;
};

TEST(NewGroup, IsRefusedWhereTheBackendCannotBeDivided) {
  const auto reports = run_world(2, [](const Group& whole) {
    const auto group = c10::make_intrusive<c10d::ProcessGroup>(whole->getStore(), whole->getRank(),
                                                               whole->getSize());
    group->setBackend(c10::DeviceType::CPU, c10d::ProcessGroup::BackendType::CUSTOM,
                      c10::make_intrusive<Undivided>(whole->getBackend(c10::DeviceType::CPU)));
    new_group(group, {0});
    return std::string("made");
  });
  EXPECT_EQ(reports,
            same(2,
                 "UsageError: new_group: the group's backend gives no group to some of its "
                 "ranks (no parts)"));
}

// As behind a call that failed on the other ranks alone. Their connections would have other names.
TEST(NewGroup, IsRefusedWhereRanksHaveCountedUnequallyManyBefore) {
  const auto reports = run_world(2, [](const Group& group) {
    if (group->getRank() == 1) with_record_of(group, [](GroupRecord& here) { ++here.groups_made; });
    new_group(group, {0, 1});
    return std::string("made");
  });
  EXPECT_EQ(reports, same(2,
                          "DisagreementError: ranks disagree on the number of groups made before "
                          "of new_group: rank 0 has 0; rank 1 has 1"));
}

}  // namespace
}  // namespace lockstep
