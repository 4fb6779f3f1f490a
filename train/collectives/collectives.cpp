#include "train/collectives.h"

#include "train/collectives/call.h"
#include "train/collectives/reductions.h"

#include <torch/torch.h>

namespace lockstep {

namespace {

// Whatever the dtype is, a tensor that is only moved travels as its bytes.
at::Tensor bytes_of(const at::Tensor& tensor) {
  const at::Tensor plain = tensor.detach().resolve_conj().resolve_neg();
  return plain.clone(at::MemoryFormat::Contiguous).view({-1}).view(at::kByte);
}

at::Tensor from_bytes(const at::Tensor& bytes, const at::Tensor& like) {
  return bytes.to(like.device()).view(like.scalar_type()).view(like.sizes());
}

void write(const at::Tensor& tensor, const at::Tensor& value) {
  const at::NoGradGuard no_grad;
  tensor.detach().copy_(value);
}

// Starts and ends a reduction that `issue` issues; it is written where `is_wanted` says.
void reduce_with(ProgramCall& call, const at::Tensor& tensor, const ReduceOp& operation,
                 const std::function<bool()>& is_wanted, const Communicator::Issue& issue) {
  call.compare(tensor);
  call.compare("the reduction", name_of(operation));
  if (call.is_possible()) {
    const auto backend = call.communicator().backend_name_for(tensor.device().type());
    if (const auto problem = problem_with(operation, tensor.scalar_type(), backend))
      call.refuse(*problem);
  }
  call.agree();
  if (tensor.numel() == 0) return;
  const at::Tensor packed = call.communicator().where_it_travels(packed_for_reduction(tensor));
  call.run({packed}, issue);
  if (is_wanted()) unpack_reduced(packed, tensor, operation, call.communicator().world_size());
}

std::vector<at::Tensor> parts_from(const at::Tensor& all, int world_size, const at::Tensor& like) {
  std::vector<at::Tensor> parts;
  for (const at::Tensor& each : all.chunk(world_size)) parts.push_back(from_bytes(each, like));
  return parts;
}

std::vector<at::Tensor> empty_parts(int world_size, const at::Tensor& like) {
  std::vector<at::Tensor> parts;
  for (int rank = 0; rank < world_size; ++rank) parts.push_back(at::empty_like(like));
  return parts;
}

std::string problem_with_parts(const std::vector<at::Tensor>& parts, const at::Tensor& tensor,
                               bool is_source, int world_size) {
  if (!is_source)
    return parts.empty() ? "" : "parts are given on a rank that is not the source, expected none";
  if (parts.size() != static_cast<std::size_t>(world_size))
    return "the source gives " + std::to_string(parts.size()) +
           " parts, expected one for each of " + std::to_string(world_size) + " ranks";
  for (std::size_t rank = 0; rank < parts.size(); ++rank) {
    const at::Tensor& part = parts[rank];
    if (part.defined() && part.sizes() == tensor.sizes() && part.dtype() == tensor.dtype() &&
        part.device().type() == tensor.device().type() && part.layout() == tensor.layout())
      continue;
    return "part " + std::to_string(rank) + " is " +
           (part.defined() ? std::string(c10::toString(part.scalar_type())) + " " +
                                 c10::str(part.sizes()) + " on " + c10::str(part.device().type())
                           : "undefined") +
           ", expected the tensor's " + c10::toString(tensor.scalar_type()) + " " +
           c10::str(tensor.sizes()) + " on " + c10::str(tensor.device().type());
  }
  return "";
}

}  // namespace

void all_reduce(const c10::intrusive_ptr<c10d::ProcessGroup>& group, const at::Tensor& tensor,
                const ReduceOp& operation, const CollectiveOptions& options) {
  ProgramCall call(group, "all_reduce", options);
  reduce_with(
      call, tensor, operation, [] { return true; },
      [&](c10d::ProcessGroup& own, std::vector<at::Tensor>& tensors) {
        c10d::AllreduceOptions sent;
        sent.reduceOp = sent_operation(operation);
        return own.allreduce(tensors, sent);
      });
}

void reduce(const c10::intrusive_ptr<c10d::ProcessGroup>& group, const at::Tensor& tensor,
            int destination, const ReduceOp& operation, const CollectiveOptions& options) {
  ProgramCall call(group, "reduce", options);
  call.check_rank("the destination", destination);
  reduce_with(
      call, tensor, operation, [&] { return call.communicator().rank() == destination; },
      [&](c10d::ProcessGroup& own, std::vector<at::Tensor>& tensors) {
        c10d::ReduceOptions sent;
        sent.reduceOp = sent_operation(operation);
        sent.rootRank = destination;
        return own.reduce(tensors, sent);
      });
}

void broadcast(const c10::intrusive_ptr<c10d::ProcessGroup>& group, const at::Tensor& tensor,
               int source, const CollectiveOptions& options) {
  ProgramCall call(group, "broadcast", options);
  call.check_rank("the source", source);
  call.compare(tensor);
  call.agree();
  if (tensor.numel() == 0) return;
  const at::Tensor bytes = call.communicator().where_it_travels(bytes_of(tensor));
  Operation operation = call.communicator().start_broadcast(bytes, call.name(), source);
  call.communicator().wait(operation);
  write(tensor, from_bytes(bytes, tensor));
}

std::vector<at::Tensor> all_gather(const c10::intrusive_ptr<c10d::ProcessGroup>& group,
                                   const at::Tensor& tensor, const CollectiveOptions& options) {
  ProgramCall call(group, "all_gather", options);
  call.compare(tensor);
  call.agree();
  const int world_size = call.communicator().world_size();
  if (tensor.numel() == 0) return empty_parts(world_size, tensor.detach());
  std::vector<at::Tensor> parts = call.communicator().gather(bytes_of(tensor), call.name());
  for (at::Tensor& part : parts) part = from_bytes(part, tensor);
  return parts;
}

std::vector<at::Tensor> gather(const c10::intrusive_ptr<c10d::ProcessGroup>& group,
                               const at::Tensor& tensor, int destination,
                               const CollectiveOptions& options) {
  ProgramCall call(group, "gather", options);
  call.check_rank("the destination", destination);
  call.compare(tensor);
  call.agree();
  const int world_size = call.communicator().world_size();
  const bool is_mine = call.communicator().rank() == destination;
  if (tensor.numel() == 0)
    return is_mine ? empty_parts(world_size, tensor.detach()) : std::vector<at::Tensor>();
  const at::Tensor mine = call.communicator().where_it_travels(bytes_of(tensor));
  const at::Tensor all = at::empty({is_mine ? world_size * mine.numel() : 0}, mine.options());
  call.run({mine, all}, [&](c10d::ProcessGroup& own, std::vector<at::Tensor>&) {
    c10d::GatherOptions sent;
    sent.rootRank = destination;
    std::vector<std::vector<at::Tensor>> outputs;
    if (is_mine) outputs.push_back(all.chunk(world_size));
    std::vector<at::Tensor> inputs = {mine};
    return own.gather(outputs, inputs, sent);
  });
  return is_mine ? parts_from(all, world_size, tensor) : std::vector<at::Tensor>();
}

void scatter(const c10::intrusive_ptr<c10d::ProcessGroup>& group, const at::Tensor& tensor,
             const std::vector<at::Tensor>& parts, int source, const CollectiveOptions& options) {
  ProgramCall call(group, "scatter", options);
  call.check_rank("the source", source);
  call.compare(tensor);
  const bool is_source = call.communicator().rank() == source;
  if (call.is_possible()) {
    const auto problem =
        problem_with_parts(parts, tensor, is_source, call.communicator().world_size());
    if (!problem.empty()) call.refuse(problem);
  }
  call.agree();
  if (tensor.numel() == 0) return;
  std::vector<at::Tensor> tensors = {call.communicator().where_it_travels(bytes_of(tensor))};
  for (const at::Tensor& part : parts)
    tensors.push_back(call.communicator().where_it_travels(bytes_of(part)));
  call.run(tensors, [&](c10d::ProcessGroup& own, std::vector<at::Tensor>& all) {
    c10d::ScatterOptions sent;
    sent.rootRank = source;
    std::vector<at::Tensor> outputs = {all.front()};
    std::vector<std::vector<at::Tensor>> inputs;
    if (is_source) inputs.emplace_back(all.begin() + 1, all.end());
    return own.scatter(outputs, inputs, sent);
  });
  write(tensor, from_bytes(tensors.front(), tensor));
}

void barrier(const c10::intrusive_ptr<c10d::ProcessGroup>& group,
             const CollectiveOptions& options) {
  ProgramCall(group, "barrier", options).agree();
}

}  // namespace lockstep
