#include "ddp/communicator.h"

#include "ddp/errors.h"

#include <torch/torch.h>

#include <algorithm>
#include <numeric>
#include <utility>

namespace lockstep {

namespace {

constexpr std::chrono::milliseconds kDefaultTimeout = std::chrono::minutes(5);
constexpr std::chrono::milliseconds kLongestTimeout = std::chrono::hours(24 * 365);
constexpr std::chrono::milliseconds kPollInterval{100};

c10::intrusive_ptr<c10d::Backend> backend_for(c10d::ProcessGroup& group, c10::DeviceType device) {
  try {
    return group.getBackend(device);
  } catch (const std::exception&) {
    return nullptr;
  }
}

// Where what is not the caller's lies, such as the words by which ranks agree.
c10::DeviceType device_of(c10d::ProcessGroup& group) {
  for (const auto device : {c10::DeviceType::CPU, c10::DeviceType::CUDA}) {
    if (backend_for(group, device)) return device;
  }
  throw UsageError("the process group has no backend for CPU tensors, nor for CUDA ones");
}

std::chrono::milliseconds timeout_of(c10d::Backend& backend) {
  try {
    return backend.getBackendOptions()->timeout;
  } catch (const c10::Error&) {
    return kDefaultTimeout;  // the base class throws: this backend has no options to show
  }
}

std::chrono::milliseconds elapsed_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() -
                                                               start);
}

}  // namespace

Communicator::Communicator(c10::intrusive_ptr<c10d::ProcessGroup> group,
                           std::optional<std::chrono::milliseconds> timeout)
    : group_(std::move(group)) {
  if (!group_)
    throw UsageError("process_group is null: expected the group of the ranks that train");
  device_ = device_of(*group_);
  const std::chrono::milliseconds group_timeout = timeout_of(*backend_for(*group_, device_));
  timeout_ = std::min(timeout.value_or(group_timeout), kLongestTimeout);
  if (timeout_ <= std::chrono::milliseconds::zero()) {
    throw UsageError("timeout is " + std::to_string(timeout_.count()) +
                     " ms, expected a positive time");
  }
}

// A cause that a peer told is the first in time, and better than what its leaving looks like here.
void Communicator::fail(const Operation& operation, std::chrono::milliseconds waited,
                        std::string cause) const {
  if (notice_) {
    if (auto told = notice_->read()) cause = *std::move(told);
  }
  const std::string where = name_.empty() ? "" : " of " + name_;
  const CommunicationError error(rank(), operation.description + where, operation.sequence_number,
                                 waited, cause);
  if (failure_->empty()) *failure_ = error.what();
  if (notice_) notice_->post(error.what());
  throw error;
}

template <class Issue>
Operation Communicator::start(std::vector<at::Tensor> tensors, std::string description,
                              Issue issue) {
  Operation operation{.work = nullptr,
                      .description = std::move(description),
                      .sequence_number = issued_count_++,
                      .tensors = std::move(tensors)};
  if (!failure_->empty()) {
    fail(operation, std::chrono::milliseconds::zero(), "an earlier one failed (" + *failure_ + ")");
  }
  try {
    operation.work = issue(operation.tensors);
  } catch (const std::exception& error) {
    fail(operation, std::chrono::milliseconds::zero(), first_line(error));
  }
  return operation;
}

Operation Communicator::start_sum(const at::Tensor& tensor, std::string description) {
  return start({tensor}, std::move(description),
               [&](std::vector<at::Tensor>& tensors) { return group_->allreduce(tensors); });
}

Operation Communicator::start_broadcast(const at::Tensor& tensor, std::string description) {
  return start({tensor}, std::move(description),
               [&](std::vector<at::Tensor>& tensors) { return group_->broadcast(tensors); });
}

Operation Communicator::start_gather(const at::Tensor& tensor, std::string description) {
  // One tensor for all: a world of a thousand ranks would otherwise have a million. Flat, since
  // Gloo takes no rows.
  at::Tensor all = at::empty({world_size() * tensor.numel()}, tensor.options());
  return start({all, tensor.flatten()}, std::move(description),
               [&](std::vector<at::Tensor>& tensors) {
                 return group_->_allgather_base(tensors[0], tensors[1]);
               });
}

std::vector<at::Tensor> Communicator::finish_gather(Operation& operation) {
  const at::Tensor all = operation.tensors.front();
  wait(operation);
  return all.chunk(world_size());
}

std::vector<at::Tensor> Communicator::gather(const at::Tensor& tensor, std::string description) {
  Operation operation = start_gather(tensor.to(device_), std::move(description));
  std::vector<at::Tensor> parts = finish_gather(operation);
  for (at::Tensor& part : parts) part = part.view(tensor.sizes()).to(tensor.device());
  return parts;
}

// Note [One place that waits]
// A simulated world runs one rank at a time and hands over where a rank blocks, so blocking happens
// here and nowhere else in this library, in short slices. A slice that ends early is an exception
// from c10d::Work::wait, and so is a failed operation; they are told apart by asking, before the
// slice, whether the operation was already over.
void Communicator::wait(Operation& operation) {
  const auto start = std::chrono::steady_clock::now();
  for (bool waiting = true; waiting;) {
    const bool is_over = operation.work->isCompleted();
    const auto left = std::max(timeout_ - elapsed_since(start), std::chrono::milliseconds(1));
    std::string cause;
    try {
      if (!operation.work->wait(std::min(kPollInterval, left))) cause = "it was aborted";
      waiting = false;
    } catch (const std::exception& error) {
      if (is_over) {
        cause = first_line(error);
      } else if (elapsed_since(start) >= timeout_ && !operation.work->isCompleted()) {
        cause = "no answer from a peer within the timeout of " + std::to_string(timeout_.count()) +
                " ms";
      } else if (notice_ && !operation.work->isCompleted()) {
        cause = notice_->read().value_or("");
      }
    }
    if (!cause.empty()) fail(operation, elapsed_since(start), cause);
  }
  operation = {};
}

void Communicator::tell_of_this_forward(const std::string& sentence) {
  if (notice_) notice_->post_of_this_forward(sentence);
}

Communicator Communicator::apart(const std::string& name) {
  std::vector<int> ranks(static_cast<std::size_t>(world_size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  c10::intrusive_ptr<c10d::ProcessGroup> group;
  try {
    group = group_->splitGroup(ranks, timeout_, std::nullopt, name, name);
  } catch (const std::exception& error) {
    throw UsageError(
        "another DistributedDataParallel lives on this process group, and its backend '" +
        backend_name() + "' gives no group to each (" + first_line(error) +
        "); give each a group of its own");
  }
  Communicator part(std::move(group), timeout_);
  part.name_ = name;
  // Nobody works, fails and leaves while others still connect to it, who would not be told.
  part.gather(at::zeros({1}, at::kLong), "meeting of the ranks that are connected");
  return part;
}

std::string Communicator::backend_name() const {
  return backend_for(*group_, device_)->getBackendName();
}

bool Communicator::carries(c10::DeviceType device) const {
  return backend_for(*group_, device) != nullptr;
}

}  // namespace lockstep
