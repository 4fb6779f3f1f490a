#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Types.hpp>

#include <chrono>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

namespace lockstep {

// The collectives of a program: what it sends between ranks beside its gradients, such as a loss
// to be logged or a metric. Their names are torch.distributed's.
//
// They are on a group of their own, of the same ranks, which the first of them makes: a collective
// that one rank alone calls never takes the place of a gradient's all-reduce. Ranks call them in
// one order. Before any tensor is sent the ranks compare what they call, with which options, and
// the tensor's shape, dtype and kind of device: a difference, or an argument that cannot work on
// one rank, is a DisagreementError with the same sentence on every rank, and the group stays
// usable. PyTorch compares nothing; Gloo then ends processes or returns wrong numbers.
//
// Tensors are dense, of any strides and any number of elements, on any device for which the group
// has a backend, or which can be copied to one. Their values are written without autograd.
//
// Everything is Collective, unless it says Local, and blocks (on a device whose streams wait: until
// the current stream waits). Throws UsageError on this rank for a null group and where the group's
// backend cannot be split, DisagreementError as said, and CommunicationError, which names the
// collective, at the deadline or where a peer failed; then this group's collectives are over, until
// destroy_process_group() on all ranks (if it was the group's first: until all ranks call one). A
// world of one takes the same path. One thread at a time may use a group. Source:
// torch.distributed; docs/pytorch_words.md.
using ReduceOp = c10d::ReduceOp;

struct CollectiveOptions {
  // For errors: "all_reduce 'loss'". Equal on all ranks.
  std::string name;

  // Longest wait, positive. Unset: that of the group.
  std::optional<std::chrono::milliseconds> timeout;
};

// Replaces `tensor` by its reduction over the ranks, which has the same bits on all of them.
//
// SUM, PRODUCT, MIN, MAX; AVG, of floating and complex tensors, is the sum divided by the world
// size; BAND, BOR, BXOR are for integers and bool. Complex tensors have SUM and AVG. For bool ones
// MAX means "any" and MIN "all"; SUM, PRODUCT and AVG are refused. PREMUL_SUM is refused. Sums of
// float16 and bfloat16 are rounded after each addition.
void all_reduce(const c10::intrusive_ptr<c10d::ProcessGroup>& group, const at::Tensor& tensor,
                const ReduceOp& operation = ReduceOp::SUM, const CollectiveOptions& options = {});

// The same, for rank `destination` alone; the others' tensors stay as they are.
void reduce(const c10::intrusive_ptr<c10d::ProcessGroup>& group, const at::Tensor& tensor,
            int destination = 0, const ReduceOp& operation = ReduceOp::SUM,
            const CollectiveOptions& options = {});

// Replaces `tensor` by that of rank `source`.
void broadcast(const c10::intrusive_ptr<c10d::ProcessGroup>& group, const at::Tensor& tensor,
               int source = 0, const CollectiveOptions& options = {});

// Returns every rank's tensor, in rank order, on the device of `tensor`.
std::vector<at::Tensor> all_gather(const c10::intrusive_ptr<c10d::ProcessGroup>& group,
                                   const at::Tensor& tensor, const CollectiveOptions& options = {});

// The same on rank `destination`; nothing on the others.
std::vector<at::Tensor> gather(const c10::intrusive_ptr<c10d::ProcessGroup>& group,
                               const at::Tensor& tensor, int destination = 0,
                               const CollectiveOptions& options = {});

// Replaces rank r's `tensor` by `parts[r]` of rank `source`: one part for each rank, of the
// tensor's shape, dtype and kind of device. The others give none.
void scatter(const c10::intrusive_ptr<c10d::ProcessGroup>& group, const at::Tensor& tensor,
             const std::vector<at::Tensor>& parts = {}, int source = 0,
             const CollectiveOptions& options = {});

// Returns when all ranks have called it. The host waits, whatever the devices are.
void barrier(const c10::intrusive_ptr<c10d::ProcessGroup>& group,
             const CollectiveOptions& options = {});

// A group of some ranks of `group`, numbered in ascending order. Every rank of `group` calls it,
// with the same ranks, each named once; those that are not among them receive null. A
// DistributedDataParallel may train on it.
c10::intrusive_ptr<c10d::ProcessGroup> new_group(
    const c10::intrusive_ptr<c10d::ProcessGroup>& group, const std::vector<int>& ranks,
    const CollectiveOptions& options = {});

// The group of this rank, where `group` is cut into groups of `size` consecutive ranks: `size`
// divides the number of ranks.
c10::intrusive_ptr<c10d::ProcessGroup> new_subgroups(
    const c10::intrusive_ptr<c10d::ProcessGroup>& group, int size,
    const CollectiveOptions& options = {});

// Gives back what these collectives keep for `group`; after a failure the next one starts anew, if
// all ranks have called this. The group itself ends with its last pointer. Local.
void destroy_process_group(const c10::intrusive_ptr<c10d::ProcessGroup>& group);

// Writes one line to standard output on rank 0, in one piece. Local.
void print_line_on_rank_0(const c10d::ProcessGroup& group, const std::string& line);

// The same, of anything that a stream prints: print_rank_0(group, "epoch ", epoch). Local.
template <class... Parts>
void print_rank_0(const c10::intrusive_ptr<c10d::ProcessGroup>& group, const Parts&... parts) {
  std::ostringstream line;
  (line << ... << parts);
  print_line_on_rank_0(*group, line.str());
}

}  // namespace lockstep
