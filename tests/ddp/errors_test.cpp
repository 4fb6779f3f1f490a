// Everything that is refused or fails, and that every rank says so in the same words.
#include "ddp/errors.h"

#include "ddp/disagreement.h"
#include "ddp/distributed_data_parallel.h"
#include "tests/ddp/forked_world.h"
#include "tests/ddp/modules.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <unistd.h>

namespace lockstep {
namespace {

using testing::Group;
using testing::numbers;
using testing::run_world;
using testing::same;
using testing::Terms;
using Loss = testing::TermsImpl::Loss;

// A module whose every aspect can be made odd on one rank.
struct Oddity {
  std::string name = "weight";
  std::vector<std::int64_t> shape = {4, 2};
  at::ScalarType dtype = at::kDouble;
  bool requires_grad = true;
  bool transposed = false;
  int count = 2;
  std::vector<std::int64_t> buffer_shape = {3};
  DistributedDataParallelOptions options = {};
};

struct OddModule : torch::nn::Module {
  explicit OddModule(const Oddity& odd) {
    register_parameter("first", torch::zeros({1}, at::kDouble));
    at::Tensor weight = torch::zeros(odd.shape, torch::dtype(odd.dtype));
    if (odd.transposed) weight = torch::zeros({2, 4}, torch::dtype(odd.dtype)).t();
    register_parameter(odd.name, weight.detach(), odd.requires_grad);
    for (int i = 2; i < odd.count; ++i) {
      register_parameter("more" + std::to_string(i), torch::zeros({1}, at::kDouble));
    }
    register_buffer("buffer", torch::zeros(odd.buffer_shape));
  }
  at::Tensor forward() { return named_parameters()["first"].sum(); }
};

struct Case {
  Oddity odd;
  std::string sentence;  // with ODD and OTHERS for the ranks
};

std::vector<Case> disagreements() {
  std::vector<Case> cases = {
      {{.count = 3}, "the number of parameters: ODD has 3; OTHERS 2"},
      {{.name = "kernel"}, "the name of parameter 1: ODD has 'kernel'; OTHERS 'weight'"},
      {{.shape = {4, 3}}, "the shape of parameter 'weight': ODD has [4, 3]; OTHERS [4, 2]"},
      {{.shape = {8}}, "the shape of parameter 'weight': ODD has [8]; OTHERS [4, 2]"},
      {{.dtype = at::kFloat}, "the dtype of parameter 'weight': ODD has Float; OTHERS Double"},
      {{.requires_grad = false}, "requires_grad of parameter 'weight': ODD has false; OTHERS true"},
      {{.transposed = true},
       "the layout of parameter 'weight': ODD has strides [1, 4]; OTHERS strides [2, 1]"},
      {{.buffer_shape = {5}}, "the shape of buffer 'buffer': ODD has [5]; OTHERS [3]"},
  };
  cases.push_back(
      {{.options = {.init_sync = false}}, "the option init_sync: ODD has false; OTHERS true"});
  cases.push_back({{.options = {.broadcast_buffers = false}},
                   "the option forward_sync_buffers: ODD has false; OTHERS true"});
  cases.push_back(
      {{.options = {.bucket_cap_mb = 0.5}}, "the option bucket_cap_mb: ODD has 0.5; OTHERS unset"});
  return cases;
}

std::vector<std::string> construct_with_one_odd_rank(int world, int odd_rank, const Oddity& odd) {
  return run_world(world, [&](const Group& group) {
    const Oddity mine = group->getRank() == odd_rank ? odd : Oddity{};
    DistributedDataParallelOptions options = mine.options;
    options.process_group = group;
    DistributedDataParallel ddp(std::make_shared<OddModule>(mine), options);
    return std::string("constructed");
  });
}

std::vector<std::size_t> others(int world, int odd_rank) {
  std::vector<std::size_t> ranks;
  for (int rank = 0; rank < world; ++rank) {
    if (rank != odd_rank) ranks.push_back(static_cast<std::size_t>(rank));
  }
  return ranks;
}

// Both camps in rank order, the one of rank 0 first.
std::string sentence_of(const Case& each, int world, int odd_rank) {
  const auto rest = others(world, odd_rank);
  const std::string verb = rest.size() == 1 ? " has " : " have ";
  const auto colon = each.sentence.find(": ODD has ");
  const auto semicolon = each.sentence.find("; OTHERS ");
  const std::string odd_value = each.sentence.substr(colon + 10, semicolon - colon - 10);
  const std::string other_value = each.sentence.substr(semicolon + 9);
  const std::string odd_part = "rank " + std::to_string(odd_rank) + " has " + odd_value;
  const std::string other_part = name_ranks(rest) + verb + other_value;
  return "DisagreementError: ranks disagree on " + each.sentence.substr(0, colon) + ": " +
         (odd_rank == 0 ? odd_part + "; " + other_part : other_part + "; " + odd_part);
}

TEST(Disagreements, RaiseTheSameSentenceOnEveryRankBeforeAnyTensorTravels) {
  for (const Case& each : disagreements()) {
    for (const int world : {2, 3}) {
      for (int odd_rank = 0; odd_rank < world; ++odd_rank) {
        EXPECT_EQ(construct_with_one_odd_rank(world, odd_rank, each.odd),
                  same(world, sentence_of(each, world, odd_rank)));
      }
    }
  }
}

TEST(Disagreements, DoNotArise) {
  EXPECT_EQ(construct_with_one_odd_rank(3, 1, {}), std::vector<std::string>(3, "constructed"));
}

std::vector<Case> obstacles() {
  std::vector<Case> cases;
  const auto add = [&](DistributedDataParallelOptions options, const std::string& sentence) {
    cases.push_back({{.options = std::move(options)}, sentence});
  };
  add({.find_unused_parameters = true}, "find_unused_parameters=true is not in this version");
  add({.gradient_as_bucket_view = true}, "gradient_as_bucket_view=true is not in this version");
  add({.static_graph = true}, "static_graph=true is not in this version");
  add({.bucket_cap_mb = -1.0}, "bucket_cap_mb is -1, expected 0 to 1e9");
  add({.forward_sync_buffers = true, .broadcast_buffers = false},
      "forward_sync_buffers and broadcast_buffers, its old name, are given and differ");
  cases.push_back({{.dtype = at::kComplexDouble},
                   "parameter 'weight' has dtype ComplexDouble; this version averages Float, "
                   "Double, Half and BFloat16"});
  return cases;
}

TEST(Obstacles, OfOneRankAreRaisedOnEveryRank) {
  for (const Case& each : obstacles()) {
    for (int odd_rank = 0; odd_rank < 3; ++odd_rank) {
      EXPECT_EQ(construct_with_one_odd_rank(3, odd_rank, each.odd),
                std::vector<std::string>(3, "DisagreementError: rank " + std::to_string(odd_rank) +
                                                " of 3 cannot take part: " + each.sentence));
    }
  }
}

TEST(Obstacles, OfAllRanksAreRaisedInAWorldOfAnySize) {
  for (const int world : {1, 2, 3}) {
    const auto reports = run_world(world, [](const Group& group) {
      Terms net(2);
      for (const at::Tensor& weight : net->weights) weight.set_requires_grad(false);
      DistributedDataParallel ddp(net, {.process_group = group});
      return std::string("constructed");
    });
    for (const std::string& report : reports) {
      EXPECT_EQ(report, reports[0]);
      EXPECT_NE(report.find("the module has no parameter that requires a gradient"),
                std::string::npos)
          << report;
    }
  }
}

TEST(Obstacles, WithoutAModuleOrAGroupAreUsageErrors) {
  EXPECT_THROW(DistributedDataParallel(std::make_shared<testing::TermsImpl>(1),
                                       DistributedDataParallelOptions{}),
               UsageError);
  EXPECT_THROW(DistributedDataParallel(std::shared_ptr<testing::TermsImpl>(),
                                       DistributedDataParallelOptions{}),
               UsageError);
}

TEST(UnfinishedReduction, IsReportedOnEveryRankAtTheEndOfItsBackwardPass) {
  for (const int world : {1, 2, 3}) {
    for (int last_lacking = 0; last_lacking < world; ++last_lacking) {
      const auto reports = run_world(world, [&](const Group& group) {
        Terms net(3);
        DistributedDataParallel ddp(net, {.process_group = group, .bucket_cap_mb = 0.0});
        const Loss whole = {{0, 2.0}, {1, 4.0}, {2, 6.0}};
        ddp.forward(whole).backward();
        std::string report;
        for (int step = 0; step < 2; ++step) {
          net->zero_grad();
          try {
            const bool lacks = group->getRank() <= last_lacking;
            ddp.forward(lacks ? Loss{{1, group->getRank() + 5.0}} : whole).backward();
            report += "no complaint";
          } catch (const UnfinishedReductionError& error) {
            report += error.what();
            report += step == 1 ? " and keeps " + net->gradients() : "";
          }
        }
        net->zero_grad();
        ddp.forward(whole).backward();  // the group is still in step
        return report + " then " + net->gradients();
      });
      std::string lists;
      for (int rank = 0; rank < world; ++rank) {
        lists += (rank > 0 ? "; rank " : "rank ") + std::to_string(rank) + " lacks " +
                 (rank <= last_lacking ? "'w0', 'w2'" : "no parameter");
      }
      for (int rank = 0; rank < world; ++rank) {
        const std::string& report = reports[static_cast<std::size_t>(rank)];
        EXPECT_NE(report.find(lists), std::string::npos) << report << "\nlacks " << lists;
        const std::string kept = rank <= last_lacking ? "none | " + std::to_string(rank + 5) + " " +
                                                            std::to_string(rank + 5) + " | none"
                                                      : "2 2 | 4 4 | 6 6";
        EXPECT_NE(report.find("and keeps " + kept + " then"), std::string::npos)
            << report << "\nlacks " << kept;
        EXPECT_NE(report.find("then 2 2 | 4 4 | 6 6"), std::string::npos) << report;
      }
    }
  }
}

TEST(UnfinishedReduction, ThatWasCutOffByAnExceptionIsReportedByTheNextForward) {
  const auto reports = run_world(2, [](const Group& group) {
    Terms net(2);
    DistributedDataParallel ddp(net, {.process_group = group});
    const auto loss = ddp.forward(Loss{{0, 1.0}, {1, 1.0}});
    net->weights[0].register_hook(
        [](const at::Tensor&) -> at::Tensor { throw std::runtime_error("a user's mistake"); });
    std::string report;
    try {
      loss.backward();
    } catch (const std::exception& error) {
      report = std::string(error.what()).substr(0, 16);
    }
    try {
      ddp.forward(Loss{{0, 1.0}, {1, 1.0}});
    } catch (const UnfinishedReductionError& error) {
      report += "; " + std::string(error.what());
    }
    return report;
  });
  for (const std::string& report : reports) {
    EXPECT_NE(report.find("a user's mistake; rank "), std::string::npos) << report;
    EXPECT_NE(report.find("was cut off still waiting for the gradients of 'w0';"),
              std::string::npos)
        << report;
  }
}

// Each rank alone may be the one that dies, at any of the places where its peers will wait.
TEST(DeadRank, IsACommunicationErrorOnItsPeersAndNotAHang) {
  for (const std::string place : {"before construction", "before forward", "before backward"}) {
    for (int dead = 0; dead < 3; ++dead) {
      const auto reports = run_world(
          3,
          [&](const Group& group) {
            const auto here = [&](const std::string& now) {
              if (place == now && group->getRank() == dead) ::_exit(7);
            };
            torch::nn::BatchNorm1d net(2);
            here("before construction");
            DistributedDataParallel ddp(net, {.process_group = group});
            here("before forward");
            auto loss = ddp.forward(torch::ones({2, 2})).sum();
            here("before backward");
            loss.backward();
            return std::string("finished");
          },
          std::chrono::seconds(3));
      for (int rank = 0; rank < 3; ++rank) {
        const std::string& report = reports[static_cast<std::size_t>(rank)];
        if (rank == dead) {
          EXPECT_EQ(report, "died: exit 7");
        } else if (place != "before forward" || report != "finished") {
          EXPECT_EQ(report.find("CommunicationError: rank " + std::to_string(rank) + ": "), 0U)
              << place << ", rank " << dead << " dead: " << report;
        }
      }
    }
  }
}

TEST(SilentRank, IsACommunicationErrorAtTheDeadlineThatSaysWhatWasWaitedFor) {
  const auto reports = run_world(
      2,
      [](const Group& group) {
        Terms net(1);
        DistributedDataParallel ddp(
            net, {.process_group = group, .timeout = std::chrono::milliseconds(300)});
        const auto loss = ddp.forward(Loss{{0, 1.0}});
        if (group->getRank() == 1) {
          char byte = 0;
          int never[2];
          if (::pipe(never) != 0) return std::string("no pipe");
          ::alarm(4);
          return std::to_string(::read(never[0], &byte, 1));
        }
        try {
          loss.backward();
        } catch (const CommunicationError& error) {
          const bool waited = error.waited() >= std::chrono::milliseconds(300);
          return std::to_string(error.rank()) + ", " + error.operation() + ", " +
                 std::to_string(error.sequence_number()) + ", " + (waited ? "waited" : "early") +
                 std::string(error.what()).substr(std::string(error.what()).find(": no answer"));
        }
        return std::string("finished");
      },
      std::chrono::seconds(20));
  EXPECT_EQ(reports[0],
            "0, all-reduce of gradient bucket 0, 2, waited: no answer from a peer within the "
            "timeout of 300 ms");
  EXPECT_EQ(reports[1], "died: signal 14");
}

}  // namespace
}  // namespace lockstep
