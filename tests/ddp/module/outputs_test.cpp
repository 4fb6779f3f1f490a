#include "ddp/outputs.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

namespace lockstep {
namespace {

struct Unknown {
  at::Tensor tensor;
};
struct Prediction {
  at::Tensor logits;
  std::vector<at::Tensor> hidden;
  int tokens = 0;
};

}  // namespace

template <>
struct OutputTensors<Prediction> {
  static void visit(const Prediction& output, auto&& each) {
    each(output.logits);
    each(output.hidden);
  }
};

namespace {

// The values of the one-element tensors found, in order.
template <class T>
std::string found_in(const T& output) {
  std::string text;
  for_each_tensor(output, [&](const at::Tensor& each) {
    text += each.defined() ? std::to_string(each.item<int>()) : "-";
  });
  return text;
}

at::Tensor number(int value) {
  return torch::full({}, value);
}

TEST(Outputs, AreFoundInEveryKindThatIsKnown) {
  EXPECT_EQ(found_in(number(1)), "1");
  EXPECT_EQ(found_in(at::Tensor()), "-");
  EXPECT_EQ(found_in(3.5), "");
  EXPECT_EQ(found_in(std::string("text")), "");
  EXPECT_EQ(found_in(std::make_tuple(number(1), 7, std::make_pair(number(2), number(3)))), "123");
  EXPECT_EQ(found_in(std::vector<at::Tensor>{number(4), number(5)}), "45");
  EXPECT_EQ(found_in(std::array<at::Tensor, 2>{number(6), number(7)}), "67");
  EXPECT_EQ(found_in(std::optional<at::Tensor>()), "");
  EXPECT_EQ(found_in(std::optional(number(8))), "8");
  EXPECT_EQ(found_in(std::map<std::string, at::Tensor>{{"b", number(2)}, {"a", number(1)}}), "12");
  EXPECT_EQ(found_in(std::unordered_map<int, at::Tensor>{{1, number(9)}}), "9");
  EXPECT_EQ(found_in(std::variant<std::monostate, at::Tensor>(number(1))), "1");
  EXPECT_EQ(found_in(std::make_unique<at::Tensor>(number(2))), "2");
  EXPECT_EQ(found_in(std::shared_ptr<at::Tensor>()), "");
  EXPECT_EQ(found_in(Prediction{number(1), {number(2), number(3)}, 4}), "123");
  EXPECT_EQ(found_in(std::vector<Prediction>{{number(1), {}, 0}, {number(2), {}, 0}}), "12");
}

TEST(Outputs, OfAStructAreKnownOnlyWhereItSaysWhereTheyAre) {
  EXPECT_TRUE(KnownOutput<Prediction>);
  EXPECT_TRUE(KnownOutput<const std::vector<Prediction>&>);
  EXPECT_FALSE(KnownOutput<Unknown>);
  EXPECT_FALSE((KnownOutput<std::tuple<at::Tensor, Unknown>>));
  EXPECT_FALSE(KnownOutput<std::vector<Unknown>>);
  EXPECT_FALSE(KnownOutput<Unknown*>);
}

}  // namespace
}  // namespace lockstep
