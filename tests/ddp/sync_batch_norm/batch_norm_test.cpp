// lockstep::BatchNorm1d to 3d: LibTorch's own, bit for bit, until they are switched.
#include "ddp/batch_norm.h"

#include "ddp/convert_sync_batchnorm.h"
#include "tests/ddp/forked_world.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

namespace lockstep {
namespace {

using testing::Group;
using testing::numbers;
using testing::run_world;
using testing::same;
using torch::nn::BatchNormOptions;

at::Tensor values(std::vector<std::int64_t> shape, at::ScalarType dtype = at::kFloat) {
  auto generator = at::detail::createCPUGenerator(7);
  return (torch::randn(shape, generator) * 2 + 1).to(dtype);
}

// Everything that three steps of training and one of evaluation show.
template <class Norm>
std::string all_bits(Norm norm, const at::Tensor& input) {
  norm->to(input.scalar_type());
  std::string bits;
  for (int step = 0; step < 4; ++step) {
    norm->train(step < 3);
    const at::Tensor leaf = (input * (step + 1)).detach().requires_grad_();
    const at::Tensor output = norm->forward(leaf);
    output.backward(output.detach().cos());
    bits += numbers(output) + " | " + numbers(leaf.grad()) + "\n";
    for (const auto& each : norm->named_parameters())
      bits += each.key() + numbers(each.value().grad()) + "\n";
    for (const auto& each : norm->named_buffers())
      bits += each.key() + numbers(each.value()) + "\n";
  }
  return bits;
}

template <class Ours, class Theirs>
std::string compare(const BatchNormOptions& options, const std::vector<std::int64_t>& shape,
                    at::ScalarType dtype) {
  const at::Tensor input = values(shape, dtype);
  const std::string theirs = all_bits(Theirs(options), input);
  return all_bits(Ours(options), input) == theirs ? "equal " : "different ";
}

TEST(BatchNorm, IsLibTorchsBitForBitUntilItIsSwitched) {
  const auto reports = run_world(1, [](const Group&) {
    std::string report;
    for (const auto& options :
         {BatchNormOptions(3), BatchNormOptions(3).momentum(std::nullopt).eps(0.1),
          BatchNormOptions(3).affine(false), BatchNormOptions(3).track_running_stats(false)}) {
      report += compare<BatchNorm1d, torch::nn::BatchNorm1d>(options, {4, 3}, at::kFloat);
      report += compare<BatchNorm1d, torch::nn::BatchNorm1d>(options, {4, 3, 2}, at::kBFloat16);
      report += compare<BatchNorm2d, torch::nn::BatchNorm2d>(options, {4, 3, 2, 2}, at::kDouble);
      report += compare<BatchNorm3d, torch::nn::BatchNorm3d>(options, {2, 3, 2, 2, 2}, at::kFloat);
    }
    return report;
  });
  std::string expected;
  for (int i = 0; i < 16; ++i) expected += "equal ";
  EXPECT_EQ(reports, same(1, expected));
}

template <class Norm>
std::string words_about(const at::Tensor& input) {
  try {
    Norm(3)->forward(input);
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  }
  return "accepted";
}

TEST(BatchNorm, RefusesWhatLibTorchsRefusesInItsWords) {
  for (const std::int64_t axes : {1, 2, 3, 4, 5, 6}) {
    std::vector<std::int64_t> shape(static_cast<std::size_t>(axes), 3);
    const at::Tensor input = torch::ones(shape);
    EXPECT_EQ(words_about<BatchNorm1d>(input), words_about<torch::nn::BatchNorm1d>(input));
    EXPECT_EQ(words_about<BatchNorm2d>(input), words_about<torch::nn::BatchNorm2d>(input));
    EXPECT_EQ(words_about<BatchNorm3d>(input), words_about<torch::nn::BatchNorm3d>(input));
  }
}

TEST(BatchNorm, PrintsClonesAndGoesIntoASequential) {
  torch::nn::Sequential net(BatchNorm2d(BatchNormOptions(2).momentum(std::nullopt)));
  EXPECT_EQ(c10::str(*net[0]),
            "lockstep::BatchNorm2d(2, eps=1e-05, momentum=None, affine=true, "
            "track_running_stats=true)");
  const auto norm = std::dynamic_pointer_cast<BatchNorm2dImpl>(net[0]);
  net->forward(torch::ones({2, 2, 1, 1}));
  const auto copy = std::dynamic_pointer_cast<torch::nn::SequentialImpl>(net->clone());
  copy->forward(torch::ones({2, 2, 1, 1}));
  EXPECT_EQ(numbers(copy->named_buffers()["0.num_batches_tracked"]), "2");
  EXPECT_EQ(numbers(norm->num_batches_tracked), "1");
}

TEST(BatchNorm, OnceSwitchedPrintsSoAndItsClonesTrainOverTheRanksToo) {
  const auto reports = run_world(2, [](const Group& group) {
    BatchNorm1d norm(BatchNormOptions(1).momentum(1.0));
    convert_sync_batchnorm(norm, group);
    const auto copy = std::dynamic_pointer_cast<BatchNorm1dImpl>(norm->clone());
    copy->forward(torch::full({2, 1}, group->getRank() * 4.0));
    return numbers(copy->running_mean) + " " + numbers(norm->running_mean) + " " + c10::str(*norm);
  });
  EXPECT_EQ(reports, same(2,
                          "2 0 lockstep::BatchNorm1d(1, eps=1e-05, momentum=1, affine=true, "
                          "track_running_stats=true), over all ranks"));
}

template <class Norm>
std::string switched_report(const Group& group, const at::Tensor& of_rank_one) {
  torch::nn::Sequential net(Norm(2));
  convert_sync_batchnorm(net, group);
  net->forward(group->getRank() == 1 ? of_rank_one : torch::ones({2, 2, 3}));
  return "no error";
}

// Before anything is merged, and not on the rank alone that would leave its peers waiting.
TEST(BatchNorm, OnceSwitchedRefusesAnInputThatDoesNotFitOnEveryRank) {
  const auto refused = [](const std::string& input, const std::string& expected) {
    return same(2, "DisagreementError: rank 1 of 2 cannot take part: the input of " + input +
                       ", expected [samples, 2, ...] with " + expected + " axes");
  };
  EXPECT_EQ(run_world(2,
                      [](const Group& group) {
                        return switched_report<BatchNorm1d>(group, torch::ones({2, 2, 3, 3}));
                      }),
            refused("BatchNorm1d '0' has shape [2, 2, 3, 3]", "2 to 3"));
  const auto other_norm = [](const Group& group) {
    if (group->getRank() == 0) return switched_report<BatchNorm1d>(group, at::Tensor());
    return switched_report<BatchNorm3d>(group, torch::ones({2, 2, 3}));
  };
  EXPECT_EQ(run_world(2, other_norm), refused("BatchNorm3d '0' has shape [2, 2, 3]", "5"));
}

}  // namespace
}  // namespace lockstep
