#include "harness/worlds/sim/arithmetic.h"

#include "harness/base/dtype.h"
#include "harness/rank/tensors.h"
#include "harness/worlds/sim/reduction.h"

#include <torch/torch.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>
#include <set>

namespace lockstep::sim {

namespace {

using Tensors = std::vector<at::Tensor>;
using Calls = std::vector<const Call*>;
using Reduction = c10d::ReduceOp;

// Hidden from autograd, as on a network: the same bytes, in memory order.
void deliver(const at::Tensor& from, const at::Tensor& to) {
  require_sendable(from);
  require_sendable(to);
  TORCH_CHECK(from.numel() == to.numel() && from.scalar_type() == to.scalar_type(), "a message of ",
              from.numel(), " ", from.scalar_type(), " does not fit into ", to.numel(), " ",
              to.scalar_type());
  if (from.numel() > 0) std::memmove(to.data_ptr(), from.const_data_ptr(), from.nbytes());
}

at::Tensor reduced_input(const Calls& members, size_t i, const ReductionOrder& order) {
  Tensors parts;
  for (const auto* call : members) parts.push_back(call->inputs.at(i));
  return reduced(parts, members.front()->reduction, order);
}

size_t root_of(const Calls& members) {
  const auto root = static_cast<size_t>(members.front()->root);
  TORCH_CHECK(root < members.size(), "rank ", root, " of a group of ", members.size(),
              " cannot be the root");
  return root;
}

// The `part`-th of as many equal parts as the group has ranks.
at::Tensor part_of(const at::Tensor& whole, size_t part, size_t of) {
  const auto plain = flat(whole);
  const auto parts = static_cast<int64_t>(of);
  TORCH_CHECK(plain.numel() % parts == 0, plain.numel(), " elements are not ", parts,
              " equal parts");
  const int64_t length = plain.numel() / parts;
  return plain.narrow(0, static_cast<int64_t>(part) * length, length);
}

void broadcast(const Calls& members, const ReductionOrder&) {
  const size_t root = root_of(members);
  for (size_t m = 0; m < members.size(); ++m)
    for (size_t i = 0; m != root && i < members[m]->outputs.size(); ++i)
      deliver(members[root]->inputs.at(i), members[m]->outputs[i]);
}

void allreduce_sparse(const Calls& members, const ReductionOrder&) {
  TORCH_CHECK(members.front()->reduction == Reduction::SUM, "sparse tensors are only summed");
  for (const auto* call : members)
    TORCH_CHECK(call->inputs.size() == 1 && call->inputs[0].is_sparse(),
                "a sparse tensor is summed with sparse ones, one at a time");
  auto sum = members.front()->inputs.at(0).clone();
  for (size_t m = 1; m < members.size(); ++m) sum = sum + members[m]->inputs.at(0);
  sum = sum.coalesce();
  // Not through an alias: copy_ replaces the indices and values of the tensor that it is called on.
  for (const auto* call : members) call->outputs.at(0).copy_(sum);
}

void allreduce(const Calls& members, const ReductionOrder& order) {
  // As Gloo's does, whose sparse one has no name of its own.
  if (has_sparse_tensors(*members.front())) return allreduce_sparse(members, order);
  for (size_t i = 0; i < members.front()->inputs.size(); ++i) {
    const auto sum = reduced_input(members, i, order);
    for (const auto* call : members) deliver(sum, call->outputs.at(i));
  }
}

// As Gloo does: the tensors of a rank are one, which a ring cuts into other pieces than each.
void allreduce_coalesced(const Calls& members, const ReductionOrder& order) {
  Tensors parts;
  for (const auto* call : members) {
    Tensors own;
    for (const auto& tensor : call->inputs) own.push_back(flat(tensor));
    parts.push_back(at::cat(own));
  }
  const auto sum = reduced(parts, members.front()->reduction, order);
  for (const auto* call : members) {
    int64_t begin = 0;
    for (const auto& tensor : call->outputs) {
      deliver(sum.narrow(0, begin, tensor.numel()), flat(tensor));
      begin += tensor.numel();
    }
  }
}

void reduce(const Calls& members, const ReductionOrder& order) {
  const Call& root = *members[root_of(members)];
  for (size_t i = 0; i < root.outputs.size(); ++i)
    deliver(reduced_input(members, i, order), root.outputs[i]);
}

// Outputs are listed by input, then by rank; those of the coalesced one by rank, then by input.
void all_gather(const Calls& members, const ReductionOrder&) {
  const size_t inputs = members.front()->inputs.size(), world = members.size();
  const bool by_member = members.front()->op == "allgather_coalesced";
  for (const auto* call : members)
    for (size_t m = 0; m < world; ++m)
      for (size_t i = 0; i < inputs; ++i)
        deliver(members[m]->inputs.at(i),
                call->outputs.at(by_member ? m * inputs + i : i * world + m));
}

// Put together once for all: in a world of 1,024 ranks a million parts are not copied one by one.
void all_gather_into_one(const Calls& members, const ReductionOrder&) {
  for (size_t i = 0; i < members.front()->outputs.size(); ++i) {
    Tensors parts;
    for (const auto* call : members) {
      parts.push_back(flat(call->inputs.at(i)));
      TORCH_CHECK(parts.back().numel() == parts.front().numel(), "parts of ", parts.front().numel(),
                  " and ", parts.back().numel(), " elements");
    }
    const auto all = at::cat(parts);
    for (const auto* call : members) deliver(all, call->outputs.at(i));
  }
}

void gather(const Calls& members, const ReductionOrder&) {
  const Call& root = *members[root_of(members)];
  for (size_t m = 0; m < members.size(); ++m) deliver(members[m]->inputs.at(0), root.outputs.at(m));
}

void scatter(const Calls& members, const ReductionOrder&) {
  const Call& root = *members[root_of(members)];
  for (size_t m = 0; m < members.size(); ++m) deliver(root.inputs.at(m), members[m]->outputs.at(0));
}

void reduce_scatter(const Calls& members, const ReductionOrder& order) {
  for (size_t m = 0; m < members.size(); ++m)
    deliver(reduced_input(members, m, order), members[m]->outputs.at(0));
}

void reduce_scatter_of_one(const Calls& members, const ReductionOrder& order) {
  for (size_t i = 0; i < members.front()->inputs.size(); ++i) {
    const auto sum = reduced_input(members, i, order);
    for (size_t m = 0; m < members.size(); ++m)
      deliver(part_of(sum, m, members.size()), flat(members[m]->outputs.at(i)));
  }
}

void all_to_all(const Calls& members, const ReductionOrder&) {
  // All are read before any is written: an output may also be another's input.
  std::vector<Tensors> sent;
  for (const auto* call : members) {
    sent.emplace_back();
    for (const auto& tensor : call->inputs) sent.back().push_back(flat(tensor).clone());
  }
  for (size_t m = 0; m < members.size(); ++m)
    for (size_t from = 0; from < members.size(); ++from)
      deliver(sent[from].at(m), members[m]->outputs.at(from));
}

// Splits along the first axis.
Tensors split(const at::Tensor& whole, std::vector<int64_t> sizes, size_t world) {
  if (sizes.empty()) {
    TORCH_CHECK(whole.size(0) % static_cast<int64_t>(world) == 0, whole.size(0), " rows are not ",
                world, " equal parts");
    sizes.assign(world, whole.size(0) / static_cast<int64_t>(world));
  }
  TORCH_CHECK(whole.is_contiguous(), "all-to-all wants contiguous tensors");
  TORCH_CHECK(sizes.size() == world &&
                  std::accumulate(sizes.begin(), sizes.end(), int64_t{0}) == whole.size(0),
              "split sizes ", sizes, " do not make ", whole.size(0), " rows for ", world, " ranks");
  return whole.variable_data().split_with_sizes(sizes);
}

void all_to_all_of_one(const Calls& members, const ReductionOrder&) {
  const size_t world = members.size();
  std::vector<Tensors> sent;
  for (const auto* call : members)
    sent.push_back(split(call->inputs.at(0).clone(), call->input_sizes, world));
  for (size_t m = 0; m < world; ++m) {
    const auto into = split(members[m]->outputs.at(0), members[m]->output_sizes, world);
    for (size_t from = 0; from < world; ++from) deliver(sent[from][m], into[from]);
  }
}

// The first sends, the second receives.
void pass_on(const Calls& members, const ReductionOrder&) {
  for (size_t i = 0; i < members[1]->outputs.size(); ++i)
    deliver(members[0]->inputs.at(i), members[1]->outputs[i]);
}

void nothing(const Calls&, const ReductionOrder&) {}

// A program that Gloo ends must not pass in a simulated world.
void require_dtypes_of_gloo(const Call& call) {
  for (const auto* tensors : {&call.inputs, &call.outputs})
    for (const auto& tensor : *tensors) {
      if (!tensor.defined() || !tensor.is_cpu()) continue;
      const auto dtype = value_of_word<Dtype>(dtype_word(tensor.scalar_type()));
      const bool fits =
          dtype && gloo_carries(*dtype, call.op) && !(tensor.is_complex() && tensor.is_sparse());
      TORCH_CHECK(fits, "Invalid scalar type: a simulated ", call.op, " carries no ",
                  tensor.is_sparse() ? "sparse " : "", dtype_word(tensor.scalar_type()),
                  ", as Gloo's does not");
    }
}

}  // namespace

void carry_out(const Calls& members, const ReductionOrder& order) {
  static const std::map<std::string, void (*)(const Calls&, const ReductionOrder&)> kOperations{
      {"broadcast", broadcast},
      {"allreduce", allreduce},
      {"allreduce_coalesced", allreduce_coalesced},
      {"allreduce_sparse", allreduce_sparse},
      {"reduce", reduce},
      {"allgather", all_gather},
      {"allgather_coalesced", all_gather},
      {"_allgather_base", all_gather_into_one},
      {"allgather_into_tensor_coalesced", all_gather_into_one},
      {"gather", gather},
      {"scatter", scatter},
      {"reduce_scatter", reduce_scatter},
      {"_reduce_scatter_base", reduce_scatter_of_one},
      {"reduce_scatter_tensor_coalesced", reduce_scatter_of_one},
      {"alltoall", all_to_all},
      {"alltoall_base", all_to_all_of_one},
      {"send", pass_on},
      {"barrier", nothing},
      {"monitoredBarrier", nothing}};
  const auto found = kOperations.find(members.front()->op);
  TORCH_CHECK(found != kOperations.end(), "simulated ranks do not know the collective ",
              members.front()->op);
  for (const auto* call : members)
    TORCH_CHECK(call->reduction == members.front()->reduction,
                "the ranks asked for different reductions: ", static_cast<int>(call->reduction),
                " and ", static_cast<int>(members.front()->reduction));
  for (const auto* call : members) require_dtypes_of_gloo(*call);
  const at::AutoDispatchBelowADInplaceOrView behind_autograds_back;
  found->second(members, order);
}

bool has_sparse_tensors(const Call& call) {
  return std::any_of(call.inputs.begin(), call.inputs.end(),
                     [](const at::Tensor& tensor) { return tensor.is_sparse(); });
}

bool is_written(const Call& call, size_t member) {
  const bool is_root = static_cast<int64_t>(member) == call.root;
  if (call.op == "broadcast") return !is_root;
  return is_root || (call.op != "reduce" && call.op != "gather");
}

Call on_copies(const Call& call) {
  const at::AutoDispatchBelowADInplaceOrView behind_autograds_back;
  std::map<const c10::TensorImpl*, at::Tensor> copies;
  const auto copy = [&](at::Tensor& tensor) {
    if (!tensor.defined()) return;
    auto& copied = copies[tensor.unsafeGetTensorImpl()];
    if (!copied.defined()) copied = tensor.clone();
    tensor = copied;
  };
  Call copied = call;
  std::for_each(copied.inputs.begin(), copied.inputs.end(), copy);
  std::for_each(copied.outputs.begin(), copied.outputs.end(), copy);
  return copied;
}

void deliver(const Tensors& from, const Tensors& to) {
  for (size_t i = 0; i < from.size(); ++i) deliver(from[i], to.at(i));
}

int64_t bytes_of(const Call& call) {
  int64_t bytes = 0;
  for (const auto& tensor : call.inputs.empty() ? call.outputs : call.inputs)
    if (tensor.defined() && !tensor.is_sparse()) bytes += static_cast<int64_t>(tensor.nbytes());
  return bytes;
}

}  // namespace lockstep::sim
