// On a device over a backend that the host does not wait for: who cannot take part, and what is
// heard late.
#include "ddp/distributed_data_parallel.h"
#include "ddp/errors.h"
#include "harness/accelerator/accelerator.h"
#include "tests/ddp/devices.h"
#include "tests/ddp/modules.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

namespace lockstep {
namespace {

using testing::forgotten;
using testing::Group;
using testing::run_on_devices;
using testing::run_world;
using testing::same;
using testing::Terms;
using Loss = testing::TermsImpl::Loss;

TEST(DeviceFailures, ParametersOfTwoKindsOfDeviceAreRefusedOnEveryRank) {
  const auto reports = run_on_devices(2, [&](const Group& group) {
    Terms net(2);
    if (group->getRank() == 1) net->weights[1].set_data(net->weights[1].to(accelerator_device()));
    DistributedDataParallel ddp(net, {.process_group = group});
    return std::string("trained");
  });
  EXPECT_EQ(reports, same(2,
                          "DisagreementError: rank 1 of 2 cannot take part: parameter 'w0' is on "
                          "cpu and 'w1' on accelerator:0, expected devices of one kind"));
}

TEST(DeviceFailures, ADeviceWithoutABackendIsRefusedOnEveryRank) {
  const auto reports = run_world(2, [&](const Group& group) {
    use_simulated_accelerator(1);
    Terms net(1);
    net->to(accelerator_device());
    DistributedDataParallel ddp(net, {.process_group = group});
    return std::string("trained");
  });
  EXPECT_EQ(reports,
            same(2,
                 "DisagreementError: ranks 0 and 1 of 2 cannot take part: parameter 'w0' "
                 "is on accelerator:0, for which the process group (gloo) has no backend"));
}

// The rank that lacks a gradient raises at once, the other no later than two forwards on, and all
// go on after update_process_group().
TEST(DeviceFailures, AMissingGradientIsReportedBeforeLong) {
  const auto reports = run_on_devices(2, [&](const Group& group) {
    Terms net(2);
    net->to(accelerator_device());
    DistributedDataParallel ddp(net, {.process_group = group});
    const auto step = [&](bool is_whole) {
      net->zero_grad();
      ddp.forward(is_whole ? Loss{{0, 2.0}, {1, 4.0}} : Loss{{0, 2.0}}).backward();
    };
    step(true);
    std::string report;
    int steps = 0;
    try {
      for (; steps < 4; ++steps) step(group->getRank() == 0);
    } catch (const UnfinishedReductionError& error) {
      report = std::to_string(steps) + " " + error.what();
    }
    ddp->update_process_group(group);
    step(true);
    return report + " | " + net->gradients() + forgotten();
  });
  EXPECT_EQ(reports[1],
            "0 rank 1: a backward pass could not be averaged: lacks 'w1'; update_process_group() "
            "begins anew on all ranks | 2 2 | 4 4");
  EXPECT_TRUE(reports[0].starts_with("1 ") || reports[0].starts_with("2 ")) << reports[0];
  EXPECT_NE(reports[0].find("an earlier backward pass could not be averaged on all ranks"),
            std::string::npos)
      << reports[0];
  EXPECT_NE(reports[0].find("rank 1 reported: lacks 'w1'"), std::string::npos) << reports[0];
  EXPECT_TRUE(reports[0].ends_with("| 2 2 | 4 4")) << reports[0];
}

TEST(DeviceFailures, CheckReductionFinishedReportsItNow) {
  const auto reports = run_on_devices(2, [&](const Group& group) {
    Terms net(2);
    net->to(accelerator_device());
    DistributedDataParallel ddp(net, {.process_group = group});
    const bool is_whole = group->getRank() == 0;
    ddp.forward(is_whole ? Loss{{0, 2.0}, {1, 4.0}} : Loss{{0, 2.0}}).backward();
    ddp->check_reduction_finished();
    return std::string("nothing was heard");
  });
  EXPECT_NE(reports[0].find("rank 1 reported: lacks 'w1'"), std::string::npos) << reports[0];
}

// A sparse gradient travels first in the first pass, and its values in a second exchange, for which
// peers would wait in vain if the rank that lacks a gradient left it out.
class MixedImpl : public torch::nn::Module {
 public:
  MixedImpl()
      : terms(register_module("terms", Terms(2))),
        embedding(register_module(
            "embedding", torch::nn::Embedding(torch::nn::EmbeddingOptions(2, 1).sparse(true)))) {}
  at::Tensor forward(const Loss& loss) {
    const at::Tensor row = at::zeros({1}, embedding->weight.options().dtype(at::kLong));
    return terms->forward(loss) + embedding->forward(row).sum().to(at::kDouble);
  }
  Terms terms;
  torch::nn::Embedding embedding;
};
TORCH_MODULE(Mixed);

TEST(DeviceFailures, AMissingGradientBesideASparseOneIsReported) {
  const auto reports = run_on_devices(2, [&](const Group& group) {
    Mixed net;
    net->to(accelerator_device());
    DistributedDataParallel ddp(net, {.process_group = group});
    const bool is_whole = group->getRank() == 0;
    ddp.forward(is_whole ? Loss{{0, 2.0}, {1, 4.0}} : Loss{{0, 2.0}}).backward();
    ddp->check_reduction_finished();
    return std::string("nothing was heard");
  });
  EXPECT_NE(reports[0].find("rank 1 reported: lacks 'terms.w1'"), std::string::npos) << reports[0];
  EXPECT_NE(reports[1].find("lacks 'terms.w1'"), std::string::npos) << reports[1];
}

// The caller has received the exception, and may clear gradients while the device still executes
// the pass, which sends its buckets then. Here the function that throws does it for the caller.
class ThrowingImpl : public testing::TermsImpl {
 public:
  ThrowingImpl() : TermsImpl(2) {}
  at::Tensor forward(bool throws) {
    const at::Tensor last_in_backward = weights[0] * 2.0;
    if (throws) {
      last_in_backward.register_hook([this](const at::Tensor&) {
        zero_grad();
        throw std::runtime_error("planted");
      });
    }
    return last_in_backward.sum() + (weights[1] * 4.0).sum();
  }
};
TORCH_MODULE(Throwing);

TEST(DeviceFailures, APassThatThrewSendsItsBucketsThoughItsGradientsAreGone) {
  for (const bool are_views : {false, true}) {
    for (const bool are_batched : {false, true}) {
      const auto reports = run_on_devices(2, [&](const Group& group) {
        Throwing net;
        net->to(accelerator_device());
        DistributedDataParallel ddp(net, {.process_group = group,
                                          .gradient_as_bucket_view = are_views,
                                          .batched_grad_copy = are_batched});
        ddp.forward(group->getRank() == 1).backward();
        ddp->check_reduction_finished();
        return std::string("nothing was heard");
      });
      EXPECT_NE(reports[0].find("rank 1 reported: an exception was thrown in the backward pass"),
                std::string::npos)
          << reports[0];
      EXPECT_NE(reports[1].find("planted"), std::string::npos) << reports[1];
    }
  }
}

// There may be no forward after it that would report: the end of the join reports the error of the
// last step, and not the peer's absence from join_sync.
TEST(DeviceFailures, TheEndOfAJoinReportsItsLastStep) {
  const auto reports = run_on_devices(2, [&](const Group& group) {
    Terms net(2);
    net->to(accelerator_device());
    DistributedDataParallel ddp(net, {.process_group = group});
    const bool is_whole = group->getRank() == 0;
    auto join = ddp.join();
    ddp.forward(Loss{{0, 2.0}, {1, 4.0}}).backward();
    std::string before;
    try {
      ddp.forward(is_whole ? Loss{{0, 2.0}, {1, 4.0}} : Loss{{0, 2.0}}).backward();
    } catch (const UnfinishedReductionError&) {
      before = "noticed; ";
    }
    try {
      join.finish();
    } catch (const std::exception& error) {
      return before + error.what();
    }
    return before + "finished";
  });
  EXPECT_TRUE(reports[1].starts_with("noticed; rank 1: an earlier reduction failed")) << reports[1];
  EXPECT_NE(reports[0].find("rank 1 reported: lacks 'w1'"), std::string::npos) << reports[0];
  EXPECT_EQ(reports[0].find("roll call"), std::string::npos) << reports[0];
}

// With find_unused_parameters it may be the map of used parameters, on the host, that fails first.
TEST(DeviceFailures, APeerThatDiesIsAnErrorInTime) {
  for (const bool finds_unused : {false, true}) {
    const auto reports = run_on_devices(
        2,
        [&](const Group& group) {
          Terms net(2);
          net->to(accelerator_device());
          DistributedDataParallel ddp(
              net, {.process_group = group, .find_unused_parameters = finds_unused});
          for (int step = 0; step < 1000; ++step) {
            if (step == 3 && group->getRank() == 1) ::_exit(9);
            net->zero_grad();
            ddp.forward(Loss{{0, 2.0}, {1, 4.0}}).backward();
          }
          return std::string("went on for ever");
        },
        std::chrono::seconds(5));
    EXPECT_TRUE(reports[0].starts_with("CommunicationError: rank 0: all-reduce of")) << reports[0];
  }
}

}  // namespace
}  // namespace lockstep
