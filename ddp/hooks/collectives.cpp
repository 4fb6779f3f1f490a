#include "ddp/comm/communicator.h"
#include "ddp/communication_hook.h"
#include "ddp/errors.h"

namespace lockstep {

namespace {

// A wait empties the operation.
void check_under_way(const Operation& operation) {
  if (operation.work) return;
  throw UsageError("a StartedCollective is waited for once, and this one, or a copy, was before");
}

}  // namespace

StartedCollective::StartedCollective(Communicator& communicator, Operation operation)
    : communicator_(&communicator), operation_(std::make_shared<Operation>(std::move(operation))) {}

void StartedCollective::wait() {
  check_under_way(*operation_);
  communicator_->wait(*operation_);
}

std::vector<at::Tensor> StartedCollective::wait_for_parts() {
  check_under_way(*operation_);
  return communicator_->finish_gather(*operation_);
}

int HookCollectives::rank() const {
  return communicator_.rank();
}

int HookCollectives::world_size() const {
  return communicator_.world_size();
}

StartedCollective HookCollectives::all_reduce(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.is_contiguous())
    throw UsageError("HookCollectives::all_reduce: expected a contiguous tensor");
  return StartedCollective(
      communicator_,
      communicator_.start_sum(tensor, "all-reduce of the communication hook for " + bucket_));
}

StartedCollective HookCollectives::all_gather(const at::Tensor& tensor) {
  return StartedCollective(
      communicator_,
      communicator_.start_gather(tensor, "all-gather of the communication hook for " + bucket_));
}

}  // namespace lockstep
