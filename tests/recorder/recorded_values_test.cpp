// Checks what the recorder in C++ writes of tensors and optimizers.
#include "recorder/cpp/comparison.h"
#include "recorder/cpp/digest.h"
#include "recorder/cpp/optimizers.h"

#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

namespace lockstep {
namespace {

// docs/protocol.md has a table of them.
TEST(DigestInCpp, IsThatOfTheProtocol) {
  EXPECT_EQ(digested(at::empty({0})).bits, 0xe220a8397b1dcdafu);
  EXPECT_EQ(digested(at::ones({1})).bits, 0xe8e26e764683dbccu);
  EXPECT_EQ(digested(at::tensor({1.f, 2.f, 3.f})).bits, 0x7dd966700a2bc9fbu);
  EXPECT_EQ(digested(at::tensor({int64_t{-1}, int64_t{0}})).bits, 0x8cb0ae6d25027e27u);
  EXPECT_EQ(digested(at::tensor({3.f, 4.f})).norm, 5.0);
  EXPECT_EQ(digested(at::Tensor()).norm, -1.0);
}

// Ten words take the loop of four and the rest; the definition is a sum of terms.
TEST(DigestInCpp, AddsUpAllWords) {
  const auto whole = at::arange(10, at::kLong);
  auto first = whole.clone(), second = whole.clone();
  first[9] = 77;
  second[3] = 77;
  EXPECT_NE(digested(whole).bits, digested(first).bits);
  EXPECT_NE(digested(whole).bits, digested(second).bits);
  EXPECT_NE(digested(first).bits, digested(second).bits);
  EXPECT_EQ(digested(whole.view({2, 5})).bits, digested(whole).bits);
  EXPECT_NE(digested(whole.view({2, 5}).t()).bits, digested(whole).bits);
}

TEST(OptimizersInCpp, NameWhatTheyHold) {
  const auto weight = at::ones({2}).requires_grad_();
  weight.mutable_grad() = at::ones({2});
  torch::optim::SGD sgd({weight}, torch::optim::SGDOptions(0.5).momentum(0.9));
  torch::optim::Adam adam({weight}, torch::optim::AdamOptions(0.25));
  EXPECT_TRUE(state_of(sgd, weight).empty());
  sgd.step();
  adam.step();
  EXPECT_EQ(name_of(sgd), "SGD");
  EXPECT_EQ(groups_of(sgd)[0]["momentum"], 0.9);
  EXPECT_EQ(groups_of(adam)[0]["lr"], 0.25);
  ASSERT_EQ(state_of(sgd, weight).size(), 1u);
  EXPECT_EQ(state_of(sgd, weight)[0].first, "momentum_buffer");
  const auto state = state_of(adam, weight);
  ASSERT_EQ(state.size(), 3u);  // without amsgrad
  EXPECT_EQ(state[0].second.item<int64_t>(), 1);
}

// LibTorch demands no learning rate of them.
struct OwnOptions : torch::optim::OptimizerCloneableOptions<OwnOptions> {};

TEST(OptimizersInCpp, MayHaveOptionsWithoutALearningRate) {
  struct Own : torch::optim::Optimizer {
    explicit Own(std::vector<at::Tensor> parameters)
        : Optimizer(std::move(parameters), std::make_unique<OwnOptions>()) {}
    at::Tensor step(LossClosure) override { return {}; }
  };
  const Own own({at::ones({2}).requires_grad_()});
  EXPECT_EQ(groups_of(own), Json::array({Json::object()}));
}

TEST(MovingByOnePlace, IsOneUnitInTheLastPlaceOfEachElementButZeros) {
  for (const auto dtype : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16}) {
    const auto before = at::tensor({1.5, -0.3, 0.0, 1e4, -2.0, 0.7}).to(dtype);
    const auto after = before.clone();
    move_by_one_place(after, at::make_generator<at::CPUGeneratorImpl>(uint64_t{1}));
    const auto words = dtype == at::kDouble  ? at::kLong
                       : dtype == at::kFloat ? at::kInt
                                             : at::kShort;
    const auto places = (after.view(words).to(at::kLong) - before.view(words).to(at::kLong)).abs();
    EXPECT_TRUE(places.equal(at::tensor({1, 1, 0, 1, 1, 1}, at::kLong))) << places;
    const auto again = before.clone();
    move_by_one_place(again, at::make_generator<at::CPUGeneratorImpl>(uint64_t{1}));
    EXPECT_TRUE(again.equal(after));
  }
}

TEST(ElementsOfTensors, FollowEachOtherWithoutThoseThatAreUndefined) {
  const std::vector<at::Tensor> all{at::tensor({1.f, 2.f}), at::Tensor(), at::ones({2, 2}).t()};
  EXPECT_EQ(elements_of(all).size(), 24u);
}

}  // namespace
}  // namespace lockstep
