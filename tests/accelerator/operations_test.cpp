#include "harness/accelerator/accelerator.h"
#include "tests/accelerator/devices.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <string>
#include <vector>

namespace lockstep {
namespace {

using testing::kNoHazards;
using testing::same_bits;

// An operation on two matrices of any dtype, square and of one size.
struct Operation {
  std::string name;
  std::function<at::Tensor(at::Tensor, at::Tensor)> act;
  bool of_complex_numbers = true;
};

std::vector<Operation> operations() {
  return {
      {"add", [](auto a, auto b) { return a + b; }},
      {"add a number", [](auto a, auto) { return a + 1.5; }},
      {"in place", [](auto a, auto b) { return a.mul_(b).add_(b, 0.5).sub_(1); }},
      {"out=", [](auto a, auto b) { return at::add_out(a, b, b); }},
      {"out= resized",
       [](auto a, auto b) {
         at::Tensor out = at::empty({0}, a.options());
         at::mm_out(out, a, b);
         return out;
       }},
      {"matmul", [](auto a, auto b) { return a.matmul(b).t(); }},
      {"addmm", [](auto a, auto b) { return at::addmm(a, b, b, 0.5, 2); }},
      {"bmm",
       [](auto a, auto b) {
         return at::stack({a, b}).bmm(at::stack({b, a}));
       }},
      {"sum", [](auto a, auto b) { return a.sum(0) + b.sum(); }},
      {"average", [](auto a, auto) { return a.mean({1}, true); }},
      {"cat",
       [](auto a, auto b) {
         return at::cat({a, b, a.t()}, 1);
       }},
      {"views", [](auto a, auto b) { return a.view({-1}).narrow(0, 3, 4).mul(b.diagonal()); }},
      {"write to a view", [](auto a, auto b) { return a.select(1, 2).copy_(b[0]), a; }},
      {"as_strided",
       [](auto a, auto) {
         return a.as_strided({3, 2}, {1, 4}, 1).clone();
       }},
      {"unfold", [](auto a, auto) { return a.unfold(0, 2, 1) * 2; }},
      {"expand", [](auto a, auto b) { return a[0].expand_as(b).add(b); }},
      {"permute, reshape",
       [](auto a, auto) {
         return a.view({2, 2, 4}).permute({2, 0, 1}).reshape({-1});
       }},
      {"index",
       [](auto a, auto) {
         return a.index({at::tensor({2, 0}).to(a.device())});
       }},
      {"index by the CPU's",
       [](auto a, auto) {
         return a.index({at::tensor({2, 0})});
       }},
      {"index_put_",
       [](auto a, auto b) {
         return a.index_put_({at::tensor({2, 0}).to(a.device())}, b[1]);
       }},
      {"where", [](auto a, auto b) { return at::where(a == b, a, b + 1); }},
      {"masked_fill_", [](auto a, auto b) { return a.masked_fill_(a != b, 3); }},
      {"nonzero", [](auto a, auto) { return a.nonzero(); }},
      {"masked_select", [](auto a, auto b) { return a.masked_select(a != b); }},
      {"fill, zero", [](auto a, auto b) { return a.fill_(2), b.zero_(), a.add(b); }},
      {"new tensors",
       [](auto a, auto) { return at::full_like(a, 7) + at::ones({4}, a.options()); }},
      {"arange", [](auto a, auto) { return at::arange(5, a.options().dtype(at::kLong)); }},
      {"to a dtype", [](auto a, auto) { return a.to(at::kComplexDouble).mul(2); }},
      {"conj", [](auto a, auto b) { return a.conj().mul(b).add(a.conj()); }},
      {"view_as_real",
       [](auto a, auto) { return a.is_complex() ? at::view_as_real(a).add(1) : a.add(1); }},
      {"bytes", [](auto a, auto) { return a.view(at::kByte).clone(); }},
      {"abs", [](auto a, auto) { return a.abs(); }},
      {"exp, sqrt", [](auto a, auto) { return a.exp().sqrt(); }},
      {"foreach",
       [](auto a, auto b) {
         return at::_foreach_add({a, b}, 2)[1];
       }},
      {"norm", [](auto a, auto) { return a.norm(); }},
      {"set_",
       [](auto a, auto b) {
         return b.set_(a.storage(), 2, {2, 2}, {4, 1}).clone();
       }},
      {"resize_",
       [](auto a, auto) {
         return a.resize_({5, 4}).slice(0, 0, 4).clone();
       }},
      {"relu", [](auto a, auto) { return a.relu(); }, false},
      {"max", [](auto a, auto) { return std::get<0>(a.max(1)); }, false},
      {"sort", [](auto a, auto) { return std::get<1>(a.sort(0)); }, false},
      {"clamp", [](auto a, auto) { return a.clamp(-0.5, 0.5); }, false},
      {"softmax", [](auto a, auto) { return a.softmax(1); }, false},
      {"cumsum", [](auto a, auto) { return a.cumsum(1); }},
      {"dropout", [](auto a, auto) { return at::dropout(a, 0.5, true); }, false},
      {"layer_norm", [](auto a, auto) { return at::layer_norm(a, {4}); }, false},
      {"avg_pool2d", [](auto a, auto) { return at::avg_pool2d(a.unsqueeze(0), 2); }, false},
      {"max_pool2d", [](auto a, auto) { return at::max_pool2d(a.unsqueeze(0), 2); }, false},
      {"copy of columns", [](auto a, auto b) { return a.copy_(b.t()); }},
      {"contiguous", [](auto a, auto) { return a.t().contiguous(); }},
      {"flip, roll", [](auto a, auto) { return a.flip({0}).roll(1, 1); }},
      {"gather", [](auto a, auto) { return a.gather(1, a.abs().argsort(1, false)); }, false},
  };
}

class OperationsTest : public ::testing::TestWithParam<at::ScalarType> {
 protected:
  void SetUp() override { use_simulated_accelerator(2); }
};

TEST_P(OperationsTest, GiveWhatTheyGiveOnTheCpu) {
  for (const Operation& each : operations()) {
    if (at::isComplexType(GetParam()) && !each.of_complex_numbers) continue;
    torch::manual_seed(7);
    const at::Tensor one = at::randn({4, 4}).to(GetParam());
    const at::Tensor other = at::randn({4, 4}).to(GetParam());
    const auto act_on = [&](const c10::Device& device) {
      torch::manual_seed(8);
      return each.act(one.clone().to(device), other.clone().to(device));
    };
    const at::Tensor expected = act_on(at::kCPU);
    for (const c10::Device& device : {accelerator_device(0), accelerator_device(1)}) {
      const at::Tensor given = act_on(device);
      EXPECT_EQ(given.device(), device) << each.name;
      EXPECT_EQ(given.strides(), expected.strides()) << each.name;
      EXPECT_TRUE(same_bits(given, expected)) << each.name;
    }
  }
  EXPECT_EQ(hazard_sentences(), kNoHazards);
}

INSTANTIATE_TEST_SUITE_P(Of, OperationsTest,
                         ::testing::Values(at::kFloat, at::kDouble, at::kHalf, at::kBFloat16,
                                           at::kComplexFloat),
                         [](const auto& each) { return c10::toString(each.param); });

class Tensors : public ::testing::Test {
 protected:
  void SetUp() override { use_simulated_accelerator(2); }
};

TEST_F(Tensors, TravelBetweenTheCpuAndBothDevices) {
  const at::Tensor numbers = at::arange(6).view({2, 3}).t();
  const at::Tensor there = numbers.to(accelerator_device(0));
  EXPECT_EQ(there.strides(), numbers.strides());
  EXPECT_TRUE(same_bits(there.to(accelerator_device(1)).add(1), numbers.add(1)));
  at::Tensor half = at::empty({3, 2}, there.options().dtype(at::kHalf));
  EXPECT_TRUE(same_bits(half.copy_(numbers), numbers.to(at::kHalf)));
  EXPECT_TRUE(numbers.clone().zero_().copy_(there).equal(numbers));
}

TEST_F(Tensors, KeepChannelsLast) {
  const at::Tensor image = at::randn({2, 3, 4, 5}).contiguous(at::MemoryFormat::ChannelsLast);
  const at::Tensor there = image.to(accelerator_device(0));
  EXPECT_TRUE(there.add(1).is_contiguous(at::MemoryFormat::ChannelsLast));
  EXPECT_TRUE(at::empty_like(there).is_contiguous(at::MemoryFormat::ChannelsLast));
  EXPECT_TRUE(same_bits(there.mul(2), image.mul(2)));
}

TEST_F(Tensors, OfTwoDevicesAreRefused) {
  const at::Tensor here = at::ones({2}, accelerator_device(0));
  for (const c10::Device& device : {accelerator_device(1), c10::Device(at::kCPU)}) {
    const at::Tensor elsewhere = at::ones({2}, device);
    try {
      here.add(elsewhere);
      ADD_FAILURE() << "added to one of " << device;
    } catch (const c10::Error& error) {
      EXPECT_NE(std::string(error.what()).find("Expected all tensors to be on the same device"),
                std::string::npos)
          << error.what();
    }
    EXPECT_THROW(here.mm(elsewhere.view({1, 2})), c10::Error);
    EXPECT_THROW(at::cat({here, elsewhere}), c10::Error);
  }
  EXPECT_EQ(here.add(at::scalar_tensor(2.0)).sum().item<double>(), 6);
}

TEST_F(Tensors, ThatAreSparseWorkLikeTheCpus) {
  const at::Tensor indices = at::tensor({0, 2, 0, 1, 0, 1}, at::kLong).view({2, 3});
  const at::Tensor values = at::tensor({1.0, 2.0, 3.0});
  const auto act_on = [&](const c10::Device& device) {
    at::Tensor sum = at::sparse_coo_tensor(indices.to(device), values.to(device), {3, 2});
    EXPECT_EQ(sum.device(), device);
    sum = sum.add(sum.coalesce()).div(4);
    sum._values().mul_(3);
    sum = sum.coalesce();
    sum.values().add_(1);
    at::Tensor dense = at::ones({3, 2}, values.options().device(device));
    dense.add_(sum, 0.5);
    return dense + sum.to_dense() + sum.clone().coalesce().mul_(2).to_dense() + sum._values()[0];
  };
  EXPECT_TRUE(same_bits(act_on(accelerator_device(1)), act_on(at::kCPU)));
}

TEST_F(Tensors, ThatNobodyWroteHoldNaN) {
  for (const auto dtype : {at::kFloat, at::kHalf, at::kDouble}) {
    const at::Tensor one = at::empty({3}, at::TensorOptions(accelerator_device(0)).dtype(dtype));
    EXPECT_TRUE(one.isnan().all().item<bool>()) << dtype;
  }
}

TEST_F(Tensors, ThatWereFreedHoldNaN) {
  at::Tensor one = at::ones({8}, accelerator_device(0));
  // Freed memory is kept for a while, so that it can be looked at.
  const at::Tensor alias = at::from_blob(one.data_ptr(), {8}, at::TensorOptions(at::kFloat));
  EXPECT_EQ(alias[3].item<float>(), 1);
  one.reset();
  EXPECT_TRUE(alias.isnan().all().item<bool>());
}

TEST_F(Tensors, CanBePinnedOnTheCpu) {
  const at::Tensor pinned = at::ones({2}).pin_memory();
  EXPECT_TRUE(pinned.is_pinned());
  EXPECT_FALSE(at::ones({2}).is_pinned());
}

TEST_F(Tensors, OfADeviceThatIsNotThereAreRefused) {
  EXPECT_THROW(at::ones({2}, c10::Device(at::kPrivateUse1, 2)), c10::Error);
  EXPECT_THROW(accelerator_device(2), c10::Error);
  EXPECT_THROW(use_simulated_accelerator(3), c10::Error);
  use_simulated_accelerator(2);
}

TEST_F(Tensors, HaveTheCpusViewsInInferenceMode) {
  const at::Tensor on_cpu = at::randn({3}, at::kComplexFloat);
  const at::Tensor tensor = on_cpu.to(accelerator_device(0));
  const c10::InferenceMode infers;
  const at::Tensor view = at::view_as_real(tensor);
  EXPECT_FALSE(view.is_inference());
  EXPECT_TRUE(same_bits(view, at::view_as_real(on_cpu)));
}

}  // namespace
}  // namespace lockstep
