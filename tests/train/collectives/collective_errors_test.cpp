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

const std::vector<Case> kRefused = {
    {[](auto& group, int rank) { all_reduce(group, at::ones({2 + rank % 2})); },
     "ranks disagree on the shape of the tensor of all_reduce: ranks 0 and 2 have [2]; rank 1 has "
     "[3]"},
    {[](auto& group, int rank) {
       all_gather(group, at::ones({2}, rank == 0 ? at::kFloat : at::kInt), {.name = "sizes"});
     },
     "ranks disagree on the dtype of the tensor of all_gather 'sizes': rank 0 has Float; ranks 1 "
     "and 2 have Int"},
    {[](auto& group, int rank) {
       all_reduce(group, at::ones({2}, rank == 1 ? at::kMeta : at::kCPU));
     },
     "ranks disagree on the device of the tensor of all_reduce: ranks 0 and 2 have cpu; rank 1 has "
     "meta"},
    {[](auto& group, int rank) {
       if (rank == 0) barrier(group, {.name = "end"});
       if (rank != 0) broadcast(group, at::ones({2}), 0, {.name = "plan"});
     },
     "ranks disagree on the collective: rank 0 has barrier 'end'; ranks 1 and 2 have broadcast "
     "'plan'"},
    {[](auto& group, int rank) {
       all_reduce(group, at::ones({2}), rank == 2 ? ReduceOp::MAX : ReduceOp::SUM);
     },
     "ranks disagree on the reduction of all_reduce: ranks 0 and 1 have SUM; rank 2 has MAX"},
    {[](auto& group, int rank) { broadcast(group, at::ones({2}), rank); },
     "ranks disagree on the source of broadcast: rank 0 has 0; rank 1 has 1; rank 2 has 2"},
    {[](auto& group, int) { reduce(group, at::ones({2}), 3); },
     "ranks 0, 1 and 2 of 3 cannot take part: reduce: the destination is 3, expected 0 to 2"},
    {[](auto& group, int rank) { all_reduce(group, rank == 1 ? at::Tensor() : at::ones({2})); },
     "rank 1 of 3 cannot take part: all_reduce: its tensor is undefined"},
    {[](auto& group, int rank) {
       all_reduce(group, rank == 1 ? at::eye(2).to_sparse() : at::eye(2));
     },
     "rank 1 of 3 cannot take part: all_reduce: its tensor is not dense"},
    {[](auto& group, int) { all_reduce(group, at::ones({2}, at::kInt), ReduceOp::AVG); },
     "ranks 0, 1 and 2 of 3 cannot take part: all_reduce: AVG of Int tensors is not offered: "
     "convert them to a floating dtype"},
    {[](auto& group, int) { all_reduce(group, at::ones({2}, at::kBool)); },
     "ranks 0, 1 and 2 of 3 cannot take part: all_reduce: SUM of Bool tensors is not offered: MAX "
     "means \"any\", and MIN \"all\""},
    {[](auto& group, int) { all_reduce(group, at::ones({2}), ReduceOp::BAND); },
     "ranks 0, 1 and 2 of 3 cannot take part: all_reduce: BAND of Float tensors is not offered: it "
     "is for integers and bool"},
    {[](auto& group, int rank) {
       const at::Tensor tensor = at::ones({2});
       std::vector<at::Tensor> parts = {tensor, tensor};
       scatter(group, tensor, rank == 0 ? parts : std::vector<at::Tensor>());
     },
     "rank 0 of 3 cannot take part: scatter: the source gives 2 parts, expected one for each of 3 "
     "ranks"},
    {[](auto& group, int rank) {
       const at::Tensor tensor = at::ones({2});
       std::vector<at::Tensor> parts = {tensor, at::ones({3}), tensor};
       scatter(group, tensor, rank == 0 ? parts : std::vector<at::Tensor>());
     },
     "rank 0 of 3 cannot take part: scatter: part 1 is Float [3] on cpu, expected the tensor's "
     "Float [2] on cpu"},
    {[](auto& group, int rank) {
       const at::Tensor tensor = at::ones({2});
       scatter(group, tensor, {tensor, tensor, tensor}, rank == 0 ? 0 : 0);
     },
     "ranks 1 and 2 of 3 cannot take part: scatter: parts are given on a rank that is not the "
     "source, expected none"},
    {[](auto& group, int) { barrier(group, {.timeout = 0ms}); },
     "ranks 0, 1 and 2 of 3 cannot take part: barrier: timeout is 0 ms, expected a positive time"},
    {[](auto& group, int rank) {
       new_group(group, {0, 1 + rank % 2});
     },
     "ranks disagree on the ranks of new_group: ranks 0 and 2 have 0, 1; rank 1 has 0, 2"},
    {[](auto& group, int) { new_group(group, {}); },
     "ranks 0, 1 and 2 of 3 cannot take part: new_group: ranks is empty, expected at least one "
     "rank"},
    {[](auto& group, int) {
       new_group(group, {1, 1});
     },
     "ranks 0, 1 and 2 of 3 cannot take part: new_group: ranks has a rank twice: 1, 1"},
    {[](auto& group, int) {
       new_group(group, {1, 3});
     },
     "ranks 0, 1 and 2 of 3 cannot take part: new_group: ranks are 1, 3, expected ranks of 0 to "
     "2"},
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

TEST(NewGroup, TrainsOnSomeRanksAndIsNullOnTheOthers) {
  const auto reports = run_world(4, [](const Group& group) {
    const Group odd = new_group(group, {3, 1}), even = new_group(group, {0, 2});
    const Group lower = new_group(group, {0, 1, 2});
    const bool is_odd = group->getRank() % 2 == 1;
    if ((odd != nullptr) != is_odd || (even != nullptr) == is_odd) return std::string("members");
    const Group mine = is_odd ? odd : even;
    const at::Tensor tensor = at::full({1}, group->getRank());
    all_reduce(mine, tensor);
    Terms net(1);
    DistributedDataParallel ddp(net, {.process_group = mine});
    ddp.forward(Loss{{0, 1.0 + group->getRank()}}).backward();
    std::string report = std::to_string(mine->getRank()) + " of " +
                         std::to_string(mine->getSize()) + ": " + numbers(tensor) + " " +
                         net->gradients();
    if (lower) {
      const auto ranks = all_gather(lower, at::full({1}, group->getRank(), at::kLong));
      report += " | " + numbers(at::cat(ranks));
    }
    return report;
  });
  EXPECT_EQ(reports, (std::vector<std::string>{"0 of 2: 2 2 2 | 0 1 2", "0 of 2: 4 3 3 | 0 1 2",
                                               "1 of 2: 2 2 2 | 0 1 2", "1 of 2: 4 3 3"}));
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
