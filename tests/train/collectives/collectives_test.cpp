// The program's own collectives: what they compute, for every dtype and form of tensor.
#include "train/collectives.h"

#include "tests/ddp/forked_world.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <iostream>

namespace lockstep {
namespace {

using testing::Group;
using testing::numbers;
using testing::run_world;
using testing::same;

const at::ScalarType kMoved[] = {at::kFloat, at::kDouble, at::kHalf,         at::kBFloat16,
                                 at::kByte,  at::kChar,   at::kShort,        at::kInt,
                                 at::kLong,  at::kBool,   at::kComplexFloat, at::kComplexDouble};

std::string real_numbers(const at::Tensor& tensor) {
  return numbers(tensor.is_complex() ? at::view_as_real(tensor.resolve_conj()) : tensor);
}

// [1, 2, 3] * (rank + 1): exact in every dtype.
at::Tensor ramp(const Group& group, at::ScalarType dtype = at::kFloat) {
  return (at::arange(1, 4) * (group->getRank() + 1)).to(dtype);
}

TEST(Collectives, AllReduceEveryReductionThatADtypeHas) {
  const auto reports = run_world(3, [](const Group& group) {
    std::string wrong;
    const auto expect = [&](const ReduceOp& operation, at::ScalarType dtype,
                            const std::string& expected) {
      const at::Tensor tensor = ramp(group, dtype);
      all_reduce(group, tensor, operation);
      if (real_numbers(tensor) != expected)
        wrong += std::string(c10::toString(dtype)) + " " + real_numbers(tensor) + ", expected " +
                 expected + "; ";
    };
    for (const auto dtype : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16}) {
      expect(ReduceOp::SUM, dtype, "6 12 18");
      expect(ReduceOp::AVG, dtype, "2 4 6");
      expect(ReduceOp::PRODUCT, dtype, "6 48 162");
      expect(ReduceOp::MIN, dtype, "1 2 3");
      expect(ReduceOp::MAX, dtype, "3 6 9");
    }
    for (const auto dtype : {at::kByte, at::kShort, at::kInt, at::kLong}) {
      expect(ReduceOp::SUM, dtype, "6 12 18");
      expect(ReduceOp::PRODUCT, dtype, "6 48 162");
      expect(ReduceOp::MIN, dtype, "1 2 3");
      expect(ReduceOp::MAX, dtype, "3 6 9");
      expect(ReduceOp::BAND, dtype, "0 0 0");  // 1 & 2 & 3, 2 & 4 & 6, 3 & 6 & 9
      expect(ReduceOp::BOR, dtype, "3 6 15");
      expect(ReduceOp::BXOR, dtype, "0 0 12");
    }
    expect(ReduceOp::SUM, at::kComplexFloat, "6 0 12 0 18 0");
    expect(ReduceOp::AVG, at::kComplexDouble, "2 0 4 0 6 0");
    const at::Tensor flags = at::zeros({3}, at::kBool);
    flags[group->getRank()] = true;
    const at::Tensor any = flags.clone(), all = flags.logical_not();
    all_reduce(group, any, ReduceOp::MAX);
    all_reduce(group, all, ReduceOp::MIN);
    return wrong + numbers(any) + " | " + numbers(all);
  });
  EXPECT_EQ(reports, same(3, "1 1 1 | 0 0 0"));
}

// int16 travels as int32, and wraps as int16 does.
TEST(Collectives, WrapSumsOfInt16AsAnAdditionDoes) {
  const auto reports = run_world(2, [](const Group& group) {
    const at::Tensor tensor = at::full({1}, 30'000, at::kShort);
    all_reduce(group, tensor);
    return numbers(tensor);
  });
  EXPECT_EQ(reports, same(2, "-5536"));
}

TEST(Collectives, WriteTensorsOfAnyFormInPlace) {
  const auto reports = run_world(2, [](const Group& group) {
    const at::Tensor whole = at::zeros({2, 3});
    whole.copy_(at::arange(6).view({2, 3}) * (group->getRank() + 1));
    all_reduce(group, whole.select(1, 1));  // a column
    const at::Tensor number = at::full({}, group->getRank() + 1.0);
    all_reduce(group, number);
    const at::Tensor leaf = at::ones({2}).set_requires_grad(true);
    all_reduce(group, leaf);
    const at::Tensor nothing = at::empty({0, 3});
    all_reduce(group, nothing);
    const at::Tensor conjugate = at::complex(at::ones({1}), at::ones({1})).conj();
    all_reduce(group, conjugate);
    const std::string mine = numbers(whole.select(1, 0)) + " ";
    const std::string expected = group->getRank() == 0 ? "0 3 " : "0 6 ";
    return (mine == expected ? "" : mine) + numbers(whole.select(1, 1)) + " | " + numbers(number) +
           " | " + numbers(leaf) + (leaf.is_leaf() ? "" : " no leaf") + " | " +
           real_numbers(conjugate);
  });
  EXPECT_EQ(reports, same(2, "3 12 | 3 | 2 2 | 2 -2"));
}

TEST(Collectives, LetTheirGroupEndWithItsLastPointer) {
  const auto reports = run_world(2, [](const Group& group) {
    std::string report;
    for (const int size : {1, 2}) {
      auto part = new_subgroups(group, size);
      barrier(part);
      const c10::weak_intrusive_ptr<c10d::ProcessGroup> weak(part);
      part.reset();
      report += weak.expired() ? "ended " : "lives ";
    }
    return report;
  });
  EXPECT_EQ(reports, same(2, "ended ended "));
}

TEST(Collectives, ReduceForOneRankAndLeaveTheOthersTensors) {
  const auto reports = run_world(3, [](const Group& group) {
    const at::Tensor sum = ramp(group), average = ramp(group, at::kDouble);
    reduce(group, sum, 2);
    reduce(group, average, 0, ReduceOp::AVG);
    return numbers(sum) + " | " + numbers(average);
  });
  EXPECT_EQ(reports,
            (std::vector<std::string>{"1 2 3 | 2 4 6", "2 4 6 | 2 4 6", "6 12 18 | 3 6 9"}));
}

TEST(Collectives, BroadcastEveryDtypeFromAnyRank) {
  const auto reports = run_world(3, [](const Group& group) {
    std::string wrong;
    for (const auto dtype : kMoved) {
      for (int source = 0; source < 3; ++source) {
        const at::Tensor tensor = ((at::arange(6) + group->getRank()) % 2).to(dtype).view({2, 3});
        broadcast(group, tensor.t(), source);
        const at::Tensor expected = ((at::arange(6) + source) % 2).to(dtype).view({2, 3});
        if (!tensor.equal(expected)) wrong += std::string(c10::toString(dtype)) + " ";
      }
    }
    broadcast(group, at::empty({0}), 1);
    return wrong;
  });
  EXPECT_EQ(reports, same(3, ""));
}

TEST(Collectives, GatherAndScatterEveryDtypeInRankOrder) {
  const auto reports = run_world(3, [](const Group& group) {
    std::string wrong;
    const int rank = group->getRank();
    for (const auto dtype : kMoved) {
      const auto of_rank = [&](int each) {
        return (at::arange(4).view({2, 2}).t() % 2 + (each == 1 ? 1 : 0)).to(dtype);
      };
      const auto check = [&](const std::vector<at::Tensor>& parts, std::size_t count) {
        bool is_right = parts.size() == count;
        for (std::size_t each = 0; is_right && each < count; ++each)
          is_right = parts[each].equal(of_rank(static_cast<int>(each)));
        if (!is_right) wrong += std::string(c10::toString(dtype)) + " ";
      };
      check(all_gather(group, of_rank(rank)), 3);
      check(gather(group, of_rank(rank), 1), rank == 1 ? 3 : 0);
      const at::Tensor part = at::zeros({2, 2}, dtype);
      scatter(
          group, part,
          rank == 2 ? std::vector{of_rank(0), of_rank(1), of_rank(2)} : std::vector<at::Tensor>(),
          2);
      if (!part.equal(of_rank(rank))) wrong += std::string("scatter ") + c10::toString(dtype) + " ";
    }
    const auto nothing = all_gather(group, at::empty({0, 2}));
    return wrong + std::to_string(nothing.size()) + " " + c10::str(nothing[2].sizes()) + " " +
           std::to_string(gather(group, at::empty({0})).size());
  });
  EXPECT_EQ(reports, (std::vector<std::string>{"3 [0, 2] 3", "3 [0, 2] 0", "3 [0, 2] 0"}));
}

// Ranks 0 and 1 let rank 2 come only when they are in the barrier, or past it.
TEST(Collectives, HoldRanksInABarrierUntilAllHaveCome) {
  const auto reports = run_world(3, [](const Group& group) {
    const auto store = group->getStore();
    if (group->getRank() == 2) store->wait({"0 is here", "1 is here"});
    if (group->getRank() != 2) store->set(std::to_string(group->getRank()) + " is here", "");
    if (group->getRank() == 2) store->set("2 is here", "");
    barrier(group, {.name = "all are here"});
    return std::string(store->check({"2 is here"}) ? "together" : "too early");
  });
  EXPECT_EQ(reports, same(3, "together"));
}

TEST(Collectives, OfAWorldOfOneTakeTheSamePath) {
  const auto reports = run_world(1, [](const Group& group) {
    const at::Tensor tensor = ramp(group);
    all_reduce(group, tensor, ReduceOp::AVG);
    reduce(group, tensor);
    broadcast(group, tensor);
    scatter(group, tensor, {tensor * 2});
    barrier(group);
    return numbers(tensor) + " " + numbers(all_gather(group, tensor).at(0)) + " " +
           numbers(gather(group, tensor).at(0));
  });
  EXPECT_EQ(reports, same(1, "2 4 6 2 4 6 2 4 6"));
}

TEST(Collectives, PrintOneWholeLineOnRankZero) {
  const auto reports = run_world(2, [](const Group& group) {
    std::ostringstream printed;
    auto* const before = std::cout.rdbuf(printed.rdbuf());
    print_rank_0(group, "epoch ", 3, ", loss ", 0.5);
    std::cout.rdbuf(before);
    return printed.str();
  });
  EXPECT_EQ(reports, (std::vector<std::string>{"epoch 3, loss 0.5\n", ""}));
}

}  // namespace
}  // namespace lockstep
