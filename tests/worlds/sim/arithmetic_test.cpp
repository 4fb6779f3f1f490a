#include "harness/worlds/sim/arithmetic.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

namespace lockstep::sim {
namespace {

using Tensors = std::vector<at::Tensor>;
using Reduction = c10d::ReduceOp;

at::Tensor numbers(std::vector<double> values) {
  return torch::tensor(values, at::kFloat);
}

// Carries out `calls`, one a member.
void run(const std::vector<Call>& calls, const ReductionOrder& order = {}) {
  std::vector<const Call*> members;
  for (const auto& call : calls) members.push_back(&call);
  carry_out(members, order);
}

Call in_place(const std::string& op, const at::Tensor& tensor, Reduction::RedOpType reduction,
              int root = -1) {
  return {.op = op, .inputs = {tensor}, .outputs = {tensor}, .root = root, .reduction = reduction};
}

// The tensors that three members with these values receive.
Tensors reduced(const std::string& op, Reduction::RedOpType reduction, const Tensors& of,
                int root = -1) {
  std::vector<Call> calls;
  Tensors out;
  for (const auto& tensor : of) {
    out.push_back(tensor.clone());
    calls.push_back(in_place(op, out.back(), reduction, root));
  }
  run(calls);
  return out;
}

void expect_equal(const at::Tensor& is, const at::Tensor& expected) {
  EXPECT_TRUE(at::equal(is, expected)) << is << "\ninstead of\n" << expected;
}

TEST(Arithmetic, ReductionsAreWhatTheirNamesSay) {
  const Tensors values{numbers({1, 8}), numbers({2, 4}), numbers({6, 3})};
  const std::vector<std::pair<Reduction::RedOpType, at::Tensor>> expected{
      {Reduction::SUM, numbers({9, 15})},
      {Reduction::AVG, numbers({3, 5})},
      {Reduction::PRODUCT, numbers({12, 96})},
      {Reduction::MIN, numbers({1, 3})},
      {Reduction::MAX, numbers({6, 8})}};
  for (const auto& [reduction, right] : expected)
    for (const auto& each : reduced("allreduce", reduction, values)) expect_equal(each, right);
  const Tensors bits{torch::tensor({12}), torch::tensor({10}), torch::tensor({14})};
  expect_equal(reduced("allreduce", Reduction::BAND, bits)[1], torch::tensor({8}));
  expect_equal(reduced("allreduce", Reduction::BOR, bits)[1], torch::tensor({14}));
  expect_equal(reduced("allreduce", Reduction::BXOR, bits)[1], torch::tensor({8}));
}

TEST(Arithmetic, AReduceChangesTheRootAlone) {
  const auto out = reduced("reduce", Reduction::SUM, {numbers({1}), numbers({2}), numbers({4})}, 1);
  expect_equal(out[0], numbers({1}));
  expect_equal(out[1], numbers({7}));
  expect_equal(out[2], numbers({4}));
}

TEST(Arithmetic, ABroadcastCopiesTheRootsValuesAndMovesNoVersion) {
  Tensors tensors{torch::zeros({2}), torch::ones({2}), torch::full({2}, 5.0)};
  const auto version = tensors[0]._version();
  std::vector<Call> calls;
  for (auto& tensor : tensors) calls.push_back(in_place("broadcast", tensor, Reduction::UNUSED, 2));
  run(calls);
  for (const auto& tensor : tensors) expect_equal(tensor, torch::full({2}, 5.0));
  EXPECT_EQ(tensors[0]._version(), version) << "a network writes behind autograd's back";
}

TEST(Arithmetic, GathersPutEveryMembersTensorInItsPlace) {
  const Tensors own{numbers({0, 1}), numbers({2, 3}), numbers({4, 5})};
  const auto empty = [](int count) {
    Tensors all;
    for (int i = 0; i < count; ++i) all.push_back(torch::full({2}, -1.0));
    return all;
  };
  std::vector<Call> gathered, into_one, coalesced, to_root;
  for (const auto& tensor : own) {
    gathered.push_back({.op = "allgather", .inputs = {tensor}, .outputs = empty(3)});
    into_one.push_back(
        {.op = "_allgather_base", .inputs = {tensor}, .outputs = {torch::zeros({6})}});
    coalesced.push_back(
        {.op = "allgather_coalesced", .inputs = {tensor, tensor + 10}, .outputs = empty(6)});
    to_root.push_back({.op = "gather", .inputs = {tensor}, .outputs = {}, .root = 1});
  }
  to_root[1].outputs = empty(3);
  for (const auto& calls : {gathered, into_one, coalesced, to_root}) run(calls);
  for (int member = 0; member < 3; ++member) {
    const auto m = static_cast<size_t>(member);
    for (size_t from = 0; from < 3; ++from) {
      expect_equal(gathered[m].outputs[from], own[from]);
      expect_equal(coalesced[m].outputs[2 * from], own[from]);
      expect_equal(coalesced[m].outputs[2 * from + 1], own[from] + 10);
      expect_equal(to_root[1].outputs[from], own[from]);
    }
    expect_equal(into_one[m].outputs[0], at::arange(6, at::kFloat));
  }
}

TEST(Arithmetic, ScattersAndReduceScattersGiveEveryMemberItsPart) {
  std::vector<Call> scattered, reduce_scattered, of_one;
  for (int member = 0; member < 3; ++member) {
    scattered.push_back({.op = "scatter", .inputs = {}, .outputs = {torch::zeros({1})}, .root = 2});
    reduce_scattered.push_back({.op = "reduce_scatter",
                                .inputs = {numbers({1}), numbers({10}), numbers({100.0 + member})},
                                .outputs = {torch::zeros({1})},
                                .reduction = Reduction::SUM});
    of_one.push_back({.op = "_reduce_scatter_base",
                      .inputs = {at::arange(6, at::kFloat)},
                      .outputs = {torch::zeros({2})},
                      .reduction = Reduction::SUM});
  }
  scattered[2].inputs = {numbers({7}), numbers({8}), numbers({9})};
  for (const auto& calls : {scattered, reduce_scattered, of_one}) run(calls);
  const std::vector<double> sums{3, 30, 303};
  for (size_t m = 0; m < 3; ++m) {
    const auto member = static_cast<double>(m);
    expect_equal(scattered[m].outputs[0], numbers({7 + member}));
    expect_equal(reduce_scattered[m].outputs[0], numbers({sums[m]}));
    expect_equal(of_one[m].outputs[0], numbers({6 * member, 6 * member + 3}));
  }
}

TEST(Arithmetic, AllToAllTransposes) {
  std::vector<Call> listed, split;
  for (int member = 0; member < 2; ++member) {
    listed.push_back({.op = "alltoall",
                      .inputs = {numbers({10.0 * member}), numbers({10.0 * member + 1})},
                      .outputs = {torch::zeros({1}), torch::zeros({1})}});
    // Member 0 sends one row to itself and two to member 1, which sends two and one.
    const std::vector<int64_t> sizes =
        member == 0 ? std::vector<int64_t>{1, 2} : std::vector<int64_t>{2, 1};
    split.push_back({.op = "alltoall_base",
                     .inputs = {at::arange(3, at::kFloat) + 10 * member},
                     .outputs = {torch::zeros({3})},
                     .input_sizes = sizes,
                     .output_sizes = sizes});
  }
  run(listed);
  run(split);
  expect_equal(listed[0].outputs[1], numbers({10}));
  expect_equal(listed[1].outputs[0], numbers({1}));
  expect_equal(split[0].outputs[0], numbers({0, 10, 11}));
  expect_equal(split[1].outputs[0], numbers({1, 2, 12}));
}

TEST(Arithmetic, ElementsArePairedByTheirPlaceInMemory) {
  auto last = torch::arange(24, at::kFloat)
                  .reshape({1, 2, 3, 4})
                  .contiguous(at::MemoryFormat::ChannelsLast);
  auto first = torch::zeros({1, 2, 3, 4}).contiguous(at::MemoryFormat::ChannelsLast);
  run({in_place("broadcast", first, Reduction::UNUSED, 1),
       in_place("broadcast", last, Reduction::UNUSED, 1)});
  expect_equal(first, last);
}

// In float32 1 + 2^24 is 2^24, so what is added first shows.
TEST(Arithmetic, TheOrderOfASumIsTheCases) {
  const double big = 1 << 24;
  const Tensors parts{torch::ones({8}), torch::full({8}, big), torch::full({8}, -big),
                      torch::ones({8})};
  const auto sum = [&](ReductionShape order, uint64_t seed = 0) {
    std::vector<Call> calls;
    for (const auto& part : parts)
      calls.push_back(in_place("allreduce", part.clone(), Reduction::SUM));
    run(calls, {order, seed});
    return calls[0].outputs[0];
  };
  expect_equal(sum(ReductionShape::flat), torch::ones({8}));  // ((1 + b) - b) + 1
  expect_equal(sum(ReductionShape::tree), torch::ones({8}));  // (1 + b) + (-b + 1)
  // Chunk c, of two elements, begins at member c - 1 and goes down: 3 2 1 0, 0 3 2 1, 1 0 3 2, ...
  expect_equal(sum(ReductionShape::ring), numbers({2, 2, 2, 2, 0, 0, 2, 2}));
  expect_equal(sum(ReductionShape::permuted, 1), sum(ReductionShape::permuted, 1));
  bool differs = false;
  for (uint64_t seed = 0; seed < 20; ++seed)
    differs = differs || !at::equal(sum(ReductionShape::permuted, seed), sum(ReductionShape::flat));
  EXPECT_TRUE(differs);
}

std::string refusal(const std::vector<Call>& calls) {
  try {
    run(calls);
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  }
  return "carried";
}

TEST(Arithmetic, WhatCannotBeCarriedIsRefused) {
  const auto both = [](const Call& call) { return std::vector<Call>{call, call}; };
  const auto column = torch::ones({4, 2}).select(1, 0);
  EXPECT_NE(refusal(both(in_place("allreduce", column, Reduction::SUM))).find("gaps"),
            std::string::npos);
  EXPECT_NE(refusal(both(in_place("allreduce", torch::ones({2}), Reduction::PREMUL_SUM)))
                .find("not carried"),
            std::string::npos);
  EXPECT_NE(refusal(both(in_place("allreduce", torch::ones({2}, at::kLong), Reduction::AVG)))
                .find("wants floating"),
            std::string::npos);
  EXPECT_NE(refusal(both(in_place("broadcast", torch::ones({2}), Reduction::UNUSED, 2)))
                .find("cannot be the root"),
            std::string::npos);
  EXPECT_NE(refusal({in_place("allreduce", torch::ones({2}), Reduction::SUM),
                     in_place("allreduce", torch::ones({2}), Reduction::MAX)})
                .find("different reductions"),
            std::string::npos);
  EXPECT_NE(
      refusal(both(in_place("shuffle", torch::ones({2}), Reduction::SUM))).find("do not know"),
      std::string::npos);
}

at::Tensor sparse_rows(std::vector<int64_t> rows, const at::Tensor& values) {
  return torch::sparse_coo_tensor(torch::tensor(rows).view({1, -1}), values, {4, 1});
}

TEST(Arithmetic, SparseTensorsAreSummedRowByRowAsGloosAllReduceDoes) {
  const Tensors own{sparse_rows({2, 0}, torch::tensor({{1.F}, {2.F}})),
                    sparse_rows({}, torch::empty({0, 1})),
                    sparse_rows({2, 2}, torch::tensor({{4.F}, {8.F}}))};
  for (const std::string op : {"allreduce", "allreduce_sparse"})
    for (const auto& each : reduced(op, Reduction::SUM, own)) {
      EXPECT_TRUE(each.is_coalesced());
      expect_equal(each._indices(), torch::tensor({{0, 2}}));
      expect_equal(each._values(), torch::tensor({{2.F}, {13.F}}));
    }
  EXPECT_THROW(reduced("allreduce", Reduction::MAX, own), c10::Error);
  EXPECT_THROW(reduced("allreduce", Reduction::SUM, {own[0], torch::ones({4, 1})}), c10::Error);
  EXPECT_THROW(reduced("allreduce", Reduction::SUM, {torch::ones({4, 1}), own[0]}), c10::Error);
}

TEST(Arithmetic, WhatGlooDoesNotCarryIsRefused) {
  const auto refused = [](const std::string& op, at::ScalarType dtype) {
    const auto values = torch::ones({2}, dtype);
    try {
      reduced(op, op == "broadcast" ? Reduction::UNUSED : Reduction::SUM, {values, values}, 0);
    } catch (const c10::Error& error) {
      EXPECT_NE(std::string(error.what()).find("Invalid scalar type"), std::string::npos)
          << error.what();
      return true;
    }
    return false;
  };
  for (const std::string op : {"broadcast", "allreduce", "reduce"}) {
    EXPECT_TRUE(refused(op, at::kShort)) << op;
    for (const auto dtype : {at::kHalf, at::kBFloat16, at::kChar, at::kByte, at::kBool, at::kInt,
                             at::kComplexFloat, at::kComplexDouble})
      EXPECT_FALSE(refused(op, dtype)) << op << " of " << dtype;
  }
  EXPECT_TRUE(refused("allgather", at::kComplexFloat));
}

TEST(Arithmetic, AMessageHoldsTheBytesOfWhatIsSent) {
  EXPECT_EQ(bytes_of({.op = "allreduce",
                      .inputs = {torch::ones({3}), torch::ones({2}, at::kLong)},
                      .outputs = {}}),
            28);
}

}  // namespace
}  // namespace lockstep::sim
