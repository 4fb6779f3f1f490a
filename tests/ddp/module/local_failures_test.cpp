// Forwards that exchange no gradients, and fail on some ranks: what the ranks do next.
#include "ddp/buffer_hook.h"
#include "ddp/distributed_data_parallel.h"
#include "ddp/errors.h"
#include "ddp/sync_batch_norm.h"
#include "tests/ddp/forked_world.h"
#include "tests/ddp/modules.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>

namespace lockstep {
namespace {

using testing::Counting;
using testing::Group;
using testing::numbers;
using testing::run_world;
using testing::same;
using testing::share;

struct BadBatch : std::exception {
  const char* what() const noexcept override { return "a bad batch"; }
};

// Counts its forwards in a buffer, by another number on each rank.
struct Picky : torch::nn::Module {
  explicit Picky(double step) : step(step) {}
  const double step;
  at::Tensor weight = register_parameter("weight", torch::ones({1}, at::kDouble));
  at::Tensor count = register_buffer("count", torch::zeros({1}, at::kDouble));
  std::string found;
  at::Tensor forward(double factor, bool throws) {
    if (throws) throw BadBatch();
    found = numbers(count);
    count += step;
    return (weight * factor).sum();
  }
};

using Ddp = DistributedDataParallel<Picky>;

void run_locally(Ddp& ddp, bool throws) {
  const auto guard = ddp.no_sync();
  try {
    ddp(1.0, throws).backward();
  } catch (const BadBatch&) {
  }
}

void evaluate(Ddp& ddp, bool throws) {
  const torch::NoGradGuard no_grad;
  try {
    ddp(1.0, throws);
  } catch (const BadBatch&) {
  }
}

std::string train(Ddp& ddp, const Group& group) {
  std::string report;
  for (int step = 0; step < 3; ++step) {
    ddp->module->zero_grad();
    ddp(share(group), false).backward();
    report += numbers(ddp->module->weight.grad());
    // The first one follows a local forward, so each rank finds its own buffers.
    report += step == 0 ? "; " : " " + ddp->module->found + "; ";
  }
  return report;
}

// Whether the next forward exchanges buffers follows from how the one before began.
TEST(LocalForwards, ThatThrewOnOneRankLeaveTheRanksInStep) {
  const std::vector<std::function<void(Ddp & ddp, bool throws)>> stories = {
      run_locally, evaluate,
      [](Ddp& ddp, bool throws) {
        run_locally(ddp, throws);
        run_locally(ddp, false);
      },
      [](Ddp& ddp, bool throws) {
        run_locally(ddp, false);
        run_locally(ddp, throws);
      }};
  for (const bool joins : {false, true}) {
    for (int odd = 0; odd < 2; ++odd) {
      for (const auto& story : stories) {
        const auto reports = run_world(
            2,
            [&](const Group& group) {
              Ddp ddp(std::make_shared<Picky>(group->getRank() + 1.0), {.process_group = group});
              ddp(1.0, false).backward();
              auto join = ddp.join({.throw_on_early_termination = true, .enable = joins});
              story(ddp, group->getRank() == odd);
              const std::string report = train(ddp, group);
              join.finish();
              return report;
            },
            std::chrono::seconds(5));
        EXPECT_EQ(reports[0], reports[1]) << odd;
        EXPECT_TRUE(reports[0].starts_with("3; 3 ")) << reports[0];
      }
    }
  }
}

const char* const kReported = " reported: forward threw: a bad batch";

void expect_reported(const std::vector<std::string>& reports, int odd) {
  const auto thrower = static_cast<std::size_t>(odd);
  EXPECT_EQ(reports[thrower], "exception: a bad batch");
  EXPECT_TRUE(reports[1 - thrower].starts_with("CommunicationError: ")) << reports[1 - thrower];
  EXPECT_NE(reports[1 - thrower].find("rank " + std::to_string(odd) + kReported), std::string::npos)
      << reports[1 - thrower];
}

TEST(LocalForwards, InWhichRanksExchangeSomethingEndTheWaitsOfPeersAsTheyThrow) {
  for (int odd = 0; odd < 2; ++odd) {
    expect_reported(run_world(2,
                              [&](const Group& group) {
                                Ddp ddp(std::make_shared<Picky>(1.0), {.process_group = group});
                                ddp->register_buffer_hook(average_buffers_hook(),
                                                          BufferHookPlace::after_forward);
                                ddp(1.0, false).backward();
                                const auto guard = ddp.no_sync();
                                ddp(1.0, group->getRank() == odd);
                                return std::string("never reported");
                              }),
                    odd);
  }
}

TEST(LocalForwards, WithStatisticsOfAllRanksEndTheWaitsOfPeersAsTheyThrow) {
  struct Normed : torch::nn::Module {
    explicit Normed(const Group& group)
        : norm(register_module("norm",
                               SyncBatchNorm({.num_features = 1, .process_group = group}))) {}
    SyncBatchNorm norm;
    at::Tensor forward(bool throws) {
      if (throws) throw BadBatch();
      return norm->forward(torch::ones({2, 1})).sum();
    }
  };
  for (const bool evaluates : {false, true}) {
    for (int odd = 0; odd < 2; ++odd) {
      expect_reported(run_world(2,
                                [&](const Group& group) {
                                  DistributedDataParallel ddp(std::make_shared<Normed>(group),
                                                              {.process_group = group});
                                  const auto guard = ddp.no_sync();
                                  const at::AutoGradMode gradients(!evaluates);
                                  ddp(false);
                                  ddp(group->getRank() == odd);
                                  return std::string("never reported");
                                }),
                      odd);
    }
  }
}

// A rank that refused has not issued what its peers have.
TEST(ChangedBuffers, AreSaidAgainOnEveryRankUntilTheGroupBeginsAnew) {
  for (const bool is_local_first : {false, true}) {
    for (int odd = 0; odd < 2; ++odd) {
      const auto reports = run_world(2, [&](const Group& group) {
        Counting net(0.0);
        DistributedDataParallel ddp(net, {.process_group = group});
        const at::Tensor input = torch::ones({1}, at::kDouble);
        ddp(input, 1.0).backward();
        const at::Tensor buffer = net->named_buffers()["average"], before = buffer.clone();
        if (group->getRank() == odd) buffer.set_data(torch::zeros({3}, at::kDouble));
        std::string report;
        const auto is_reported = [&](const auto& act) {
          try {
            act();
            return false;
          } catch (const Error& error) {
            const std::string sentence = error.what();
            const bool names_it =
                sentence.find(
                    "buffer 0 was 'average' Double[2] when the module was wrapped and is "
                    "'average' Double[3] now; wrap it again") != std::string::npos;
            if (!names_it) report += sentence + "; ";
            return true;
          }
        };
        if (is_local_first) {
          is_reported([&] {
            const auto guard = ddp.no_sync();
            ddp(input, 1.0).backward();
          });
        }
        for (int step = 0; step < 3; ++step) {
          const bool is = is_reported([&] { ddp(input, 1.0).backward(); });
          report += is ? "reported; " : "trained; ";
          // A repaired rank is out of step all the same.
          if (group->getRank() == odd) buffer.set_data(before);
        }
        net->zero_grad();
        ddp->update_process_group(group);
        ddp(input * share(group), 1.0).backward();
        return report + numbers(net->weight.grad());
      });
      EXPECT_EQ(reports, same(2, "reported; reported; reported; 3"));
    }
  }
}

TEST(ChangedBuffers, HaveOneSentenceInEveryForward) {
  for (const std::string way : {"synchronised", "local", "without gradients"}) {
    const auto reports = run_world(2, [&](const Group& group) {
      Counting net(0.0);
      DistributedDataParallel ddp(net, {.process_group = group});
      const at::Tensor input = torch::ones({1}, at::kDouble);
      ddp(input, 1.0).backward();
      net->register_buffer("late", torch::zeros({2}));
      const at::AutoGradMode gradients(way != "without gradients");
      if (way == "local") {
        const auto guard = ddp.no_sync();
        ddp(input, 1.0);
      }
      ddp(input, 1.0);
      return std::string("accepted");
    });
    for (int rank = 0; rank < 2; ++rank)
      EXPECT_EQ(reports[static_cast<std::size_t>(rank)],
                "UsageError: rank " + std::to_string(rank) +
                    ": buffer 'late' was registered after the module was wrapped; wrap it again")
          << way;
  }
}

}  // namespace
}  // namespace lockstep
