#include "tests/accelerator/devices.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <memory>
#include <thread>

namespace lockstep {
namespace {

using testing::kNoHazards;
using testing::same_bits;
namespace nn = torch::nn;

class Training : public ::testing::Test {
 protected:
  void SetUp() override {
    use_simulated_accelerator(2);
    clear_hazards();
  }
};

struct Task {
  nn::Sequential net;
  at::Tensor input, target;
  std::function<at::Tensor(const at::Tensor&, const at::Tensor&)> loss;
};

// Parameters, buffers and losses after three steps on a device.
template <class Optimizer, class Options>
std::vector<at::Tensor> trained(const Task& task, const c10::Device& device,
                                const Options& options) {
  const auto net = std::dynamic_pointer_cast<nn::SequentialImpl>(task.net->clone());
  net->to(device);
  Optimizer optimizer(net->parameters(), options);
  std::vector<at::Tensor> out;
  torch::manual_seed(5);
  for (int step = 0; step < 3; ++step) {
    optimizer.zero_grad();
    const at::Tensor loss = task.loss(net->forward(task.input.to(device)), task.target.to(device));
    loss.backward();
    optimizer.step();
    out.push_back(loss.detach());
  }
  for (const at::Tensor& each : net->parameters()) {
    out.push_back(each.detach());
    out.push_back(each.grad());
  }
  for (const at::Tensor& each : net->buffers()) out.push_back(each);
  return out;
}

template <class Optimizer, class Options>
void expect_the_cpus_training(const Task& task, const Options& options) {
  const auto expected = trained<Optimizer>(task, at::kCPU, options);
  const auto given = trained<Optimizer>(task, accelerator_device(1), options);
  ASSERT_EQ(given.size(), expected.size());
  for (std::size_t i = 0; i < given.size(); ++i) {
    EXPECT_EQ(given[i].device(), accelerator_device(1));
    EXPECT_TRUE(same_bits(given[i], expected[i])) << "tensor " << i;
  }
  EXPECT_EQ(hazard_sentences(), kNoHazards);
}

at::Tensor mse(const at::Tensor& output, const at::Tensor& target) {
  return at::mse_loss(output, target);
}

at::Tensor cross_entropy(const at::Tensor& output, const at::Tensor& target) {
  return at::cross_entropy_loss(output, target);
}

Task images() {
  torch::manual_seed(3);
  return {.net = nn::Sequential(nn::Conv2d(nn::Conv2dOptions(3, 4, 3).stride(2).padding(1)),
                                nn::BatchNorm2d(4), nn::ReLU(),
                                nn::ConvTranspose2d(nn::ConvTranspose2dOptions(4, 2, 3)),
                                nn::Dropout(0.3), nn::Flatten(), nn::Linear(72, 5)),
          .input = at::randn({6, 3, 8, 8}),
          .target = at::randint(5, {6}),
          .loss = cross_entropy};
}

TEST_F(Training, OfAConvolutionalNetworkIsTheCpus) {
  expect_the_cpus_training<torch::optim::SGD>(images(),
                                              torch::optim::SGDOptions(0.1).momentum(0.9));
  expect_the_cpus_training<torch::optim::Adam>(images(), torch::optim::AdamOptions(0.01));
}

TEST_F(Training, OfChannelsLastIsTheCpus) {
  Task task = images();
  task.input = task.input.contiguous(at::MemoryFormat::ChannelsLast);
  expect_the_cpus_training<torch::optim::SGD>(task, torch::optim::SGDOptions(0.1));
}

TEST_F(Training, OfEveryFloatIsTheCpus) {
  for (const auto dtype : {at::kDouble, at::kHalf, at::kBFloat16}) {
    torch::manual_seed(3);
    Task task{.net = nn::Sequential(nn::Linear(4, 6), nn::Tanh(), nn::Linear(6, 2)),
              .input = at::randn({5, 4}).to(dtype),
              .target = at::randn({5, 2}).to(dtype),
              .loss = mse};
    task.net->to(dtype);
    expect_the_cpus_training<torch::optim::SGD>(task, torch::optim::SGDOptions(0.1));
  }
}

TEST_F(Training, OfAnEmbeddingIsTheCpusSparseOrNot) {
  for (const bool is_sparse : {false, true}) {
    torch::manual_seed(3);
    const Task task{
        .net = nn::Sequential(nn::Embedding(nn::EmbeddingOptions(10, 3).sparse(is_sparse))),
        .input = at::tensor({1, 7, 1, 3}),
        .target = at::randn({4, 3}),
        .loss = mse};
    const auto sgd = torch::optim::SGDOptions(0.5);
    const auto expected = trained<torch::optim::SGD>(task, at::kCPU, sgd);
    const auto given = trained<torch::optim::SGD>(task, accelerator_device(0), sgd);
    EXPECT_TRUE(same_bits(given[3], expected[3]));
    EXPECT_EQ(given[4].is_sparse(), is_sparse);
    EXPECT_TRUE(same_bits(given[4].to_dense(), expected[4].to_dense()));
  }
  EXPECT_EQ(hazard_sentences(), kNoHazards);
}

TEST_F(Training, OfComplexNumbersIsTheCpus) {
  torch::manual_seed(3);
  const at::Tensor start = at::randn({3, 3}, at::kComplexDouble);
  const auto gradient_on = [&](const c10::Device& device) {
    const at::Tensor weight =
        start.detach().to(device, at::kComplexDouble, false, true).requires_grad_();
    weight.matmul(weight.conj()).abs().sum().backward();
    return weight.grad();
  };
  EXPECT_TRUE(same_bits(gradient_on(accelerator_device(0)), gradient_on(at::kCPU)));
}

TEST_F(Training, RunsBackwardOnTheDevicesOwnThread) {
  const at::Tensor weight = at::ones({2}, accelerator_device(1)).requires_grad_();
  std::thread::id thread;
  weight.register_hook([&](const at::Tensor&) { thread = std::this_thread::get_id(); });
  weight.sum().backward();
  EXPECT_NE(thread, std::thread::id());
  EXPECT_NE(thread, std::this_thread::get_id());
}

TEST_F(Training, OverTwoDevicesIsTheCpus) {
  const auto gradient_over = [](const c10::Device& one, const c10::Device& other) {
    const at::Tensor weight = at::arange(4.0, at::TensorOptions(one)).requires_grad_();
    (weight.mul(2).to(other).exp().to(one) * weight).sum().backward();
    return weight.grad();
  };
  EXPECT_TRUE(same_bits(gradient_over(accelerator_device(0), accelerator_device(1)),
                        gradient_over(at::kCPU, at::kCPU)));
  EXPECT_EQ(hazard_sentences(), kNoHazards);
}

}  // namespace
}  // namespace lockstep
