#include "ddp/comm/communicator.h"

#include "ddp/backend/gloo.h"
#include "ddp/comm/split_group.h"
#include "ddp/errors.h"

#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace lockstep {

namespace {

constexpr std::chrono::milliseconds kLongestTimeout = std::chrono::hours(24 * 365);

c10::intrusive_ptr<c10d::Backend> backend_for(c10d::ProcessGroup& group, c10::DeviceType device) {
  try {
    return group.getBackend(device);
  } catch (const std::exception&) {
    return nullptr;
  }
}

// The device to which tensors without a backend are copied, such as the texts that ranks compare.
c10::DeviceType device_of(c10d::ProcessGroup& group) {
  for (const auto device : {c10::DeviceType::CPU, c10::DeviceType::CUDA}) {
    if (backend_for(group, device)) return device;
  }
  for (const c10::Device& device : group.getDeviceTypes()) {
    if (backend_for(group, device.type())) return device.type();
  }
  throw UsageError("the process group has no backend for CPU tensors, nor for CUDA ones");
}

}  // namespace

Communicator::Communicator(c10::intrusive_ptr<c10d::ProcessGroup> group,
                           std::optional<std::chrono::milliseconds> timeout)
    : group_(std::move(group)) {
  if (!group_)
    throw UsageError("process_group is null: expected the group of the ranks that train");
  device_ = device_of(*group_);
  group_timeout_ = backend_timeout(device_);
  set_timeout(timeout);
  if (timeout_ <= std::chrono::milliseconds::zero()) {
    throw UsageError("timeout is " + std::to_string(timeout_.count()) +
                     " ms, expected a positive time");
  }
}

// Note [The Work of a lost device]
// LibTorch 2.11's CUDAEvent makes a device guard in its destructor, which throws where the device
// is lost, and that ends the process before the rank has reported anything. NCCL's Work has such
// events. A lost device throws at every query, so such a Work is leaked; the process will end soon.
std::shared_ptr<c10d::Work> Communicator::shared(c10::intrusive_ptr<c10d::Work> work,
                                                 const c10::Device& device) const {
  const auto release = [is_on_a_stream = streams_wait(device)](c10d::Work* released) {
    auto owned = c10::intrusive_ptr<c10d::Work>::reclaim(released);
    try {
      if (owned && is_on_a_stream) owned->isCompleted();
    } catch (const std::exception&) {
      static_cast<void>(owned.release());
    }
  };
  return {work.release(), release};
}

// A peer that ended without an error explains connections that are closed, and a store that is
// gone. One whose process ended earlier has posted nothing.
std::string Communicator::cause_with_ended_peer(const Operation& operation,
                                                std::string cause) const {
  const bool is_closed = is_closed_connection(cause);
  const auto number = is_instances_ ? std::optional(operation.sequence_number) : std::nullopt;
  const auto ended = notice_ ? notice_->ended_peer(number) : std::nullopt;
  if (ended) return is_closed || cause == *ended ? *ended : *ended + " (" + cause + ")";
  if (is_closed) {
    const std::string peer = world_size() == 2 ? "rank " + std::to_string(1 - rank()) : "a peer";
    cause = peer +
            " left: it closed its connection, as a process does that is killed, crashes, or calls "
            "exit() before its DistributedDataParallel is destroyed (" +
            cause + ")";
  }
  if (notice_ && notice_->server_has_left()) {
    cause +=
        "; the store of the group is gone too: the process that served it, mostly rank 0's, "
        "has ended. If it made fewer steps than this rank, join() is for uneven inputs "
        "(docs/ddp.md)";
  }
  return cause;
}

// A peer's error is the first in time, and a better cause than its closed connection as seen here.
void Communicator::fail(const Operation& operation, std::chrono::milliseconds waited,
                        std::string cause) const {
  if (const auto sentence = notice_ ? notice_->read(operation.issued_before) : std::nullopt) {
    cause = *sentence;
  } else if (failure_->empty()) {
    cause = cause_with_ended_peer(operation, std::move(cause));
  }
  const CommunicationError error(rank(), text_of(operation), operation.sequence_number, waited,
                                 cause);
  if (failure_->empty()) *failure_ = error.what();
  if (notice_) notice_->post(error.what());
  abort_device_backends();
  throw error;
}

Operation Communicator::next_operation(std::string description) const {
  return {.work = nullptr,
          .description = std::move(description),
          .sequence_number = issued_count_,
          .issued_before = notice_ ? notice_->issued_count() : 0,
          .tensors = {},
          .home = {},
          .issued_at = std::chrono::steady_clock::now()};
}

std::string Communicator::text_of(const Operation& operation) const {
  return operation.description + (name_.empty() ? "" : " of " + name_);
}

void Communicator::fail(std::string description, std::string cause) const {
  fail(next_operation(std::move(description)), std::chrono::milliseconds::zero(), std::move(cause));
}

template <class Issue>
Operation Communicator::start(std::vector<at::Tensor> tensors, std::string description,
                              Issue issue) {
  look_at_what_is_under_way();
  Operation operation = next_operation(std::move(description));
  operation.tensors = std::move(tensors);
  ++issued_count_;
  if (notice_) operation.issued_before = notice_->count_issue();
  if (!failure_->empty()) {
    fail(operation, std::chrono::milliseconds::zero(), "an earlier one failed (" + *failure_ + ")");
  }
  try {
    operation.work = shared(issue(operation.tensors), operation.tensors.front().device());
  } catch (const std::exception& error) {
    fail(operation, elapsed_since(operation.issued_at), first_line(error));
  }
  return operation;
}

at::Tensor Communicator::where_it_travels(const at::Tensor& tensor) const {
  if (carries(tensor.device().type())) return tensor;
  for (const auto& device : {group_->getBoundDeviceId(), travels_by_}) {
    if (device && device->type() == device_) return tensor.to(*device);
  }
  return tensor.to(device_);
}

Operation Communicator::start_sum(const at::Tensor& tensor, std::string description) {
  Operation operation =
      start({where_it_travels(tensor)}, std::move(description),
            [&](std::vector<at::Tensor>& tensors) { return group_->allreduce(tensors); });
  operation.home = tensor;
  return operation;
}

Operation Communicator::start_broadcast(const at::Tensor& tensor, std::string description,
                                        int source) {
  c10d::BroadcastOptions options;
  options.rootRank = source;
  Operation operation =
      start({where_it_travels(tensor)}, std::move(description),
            [&](std::vector<at::Tensor>& tensors) { return group_->broadcast(tensors, options); });
  operation.home = tensor;
  return operation;
}

Operation Communicator::start_gather(const at::Tensor& tensor, std::string description) {
  const at::Tensor mine = where_it_travels(tensor.flatten());
  // One tensor for all: a world of a thousand ranks would otherwise have a million. Flat, since
  // Gloo takes no rows.
  const at::Tensor all = at::empty({world_size() * mine.numel()}, mine.options());
  Operation operation =
      start({all, mine}, std::move(description), [&](std::vector<at::Tensor>& tensors) {
        return group_->_allgather_base(tensors[0], tensors[1]);
      });
  const bool stays = mine.device() == tensor.device();
  operation.home = stays ? all : at::empty(all.sizes(), all.options().device(tensor.device()));
  return operation;
}

Operation Communicator::start_other(std::vector<at::Tensor> tensors, std::string description,
                                    const Issue& issue) {
  const at::Tensor result = tensors.front();
  Operation operation = start(std::move(tensors), std::move(description),
                              [&](std::vector<at::Tensor>& all) { return issue(*group_, all); });
  operation.home = result;
  return operation;
}

Operation Communicator::follow(c10::intrusive_ptr<c10d::Work> work, const at::Tensor& tensor,
                               std::string description) const {
  Operation operation = next_operation(std::move(description));
  operation.work = shared(std::move(work), tensor.device());
  operation.tensors = {tensor};
  operation.home = tensor;
  return operation;
}

std::vector<at::Tensor> Communicator::finish_gather(Operation& operation) {
  const at::Tensor all = operation.home;
  wait(operation);
  return all.chunk(world_size());
}

std::vector<at::Tensor> Communicator::gather(const at::Tensor& tensor, std::string description) {
  Operation operation = start_gather(tensor, std::move(description));
  std::vector<at::Tensor> parts = finish_gather(operation);
  for (at::Tensor& part : parts) part = part.view(tensor.sizes());
  return parts;
}

std::optional<std::string> Communicator::peer_error() const {
  return notice_ ? notice_->read(notice_->issued_count()) : std::nullopt;
}

void Communicator::report(const std::string& sentence) {
  if (notice_) notice_->post(sentence);
}

void Communicator::report_thrown_backward(const std::string& sentence) {
  if (notice_) notice_->post_thrown_backward(sentence);
}

void Communicator::set_timeout(std::optional<std::chrono::milliseconds> timeout) {
  timeout_is_given_ = timeout.has_value();
  timeout = std::min(timeout.value_or(group_timeout_), kLongestTimeout);
  if (std::exchange(timeout_, *timeout) != *timeout && !name_.empty()) group_->setTimeout(timeout_);
}

void Communicator::take_timeout_of(const Communicator& other) {
  timeout_ = other.timeout_;
  timeout_is_given_ = other.timeout_is_given_;
  // Several communicators may share a part of a group: its backends wait as long as the longest.
  if (!name_.empty() && timeout_ > backend_timeout(device_)) group_->setTimeout(timeout_);
}

Communicator Communicator::split(const std::string& name, const std::string& need) {
  c10::intrusive_ptr<c10d::ProcessGroup> group;
  const auto start = std::chrono::steady_clock::now();
  const auto failed = [&](const std::exception& error) {
    fail(next_operation("connecting of " + name), elapsed_since(start), first_line(error));
  };
  try {
    group = split_group(*group_, timeout_, name);
  } catch (const c10::DistError& error) {
    failed(error);
  } catch (const std::exception& error) {
    if (elapsed_since(start) >= timeout_) failed(error);  // a peer that does not come
    throw UsageError(need + ", and its backend '" + backend_name() + "' gives no group to each (" +
                     first_line(error) + "); give each a group of its own");
  }
  Communicator part(std::move(group), timeout_);
  part.take_timeout_of(*this);
  part.group_timeout_ = group_timeout_;
  part.name_ = name;
  part.travels_by_ = travels_by_;
  // Otherwise a rank could fail and exit while others still connect to it and never get its error.
  part.gather(at::zeros({1}, at::kLong), "meeting of the ranks that are connected");
  return part;
}

c10::intrusive_ptr<c10d::Backend> Communicator::backend_of(c10::DeviceType device) const {
  return backend_for(*group_, device);
}

std::chrono::milliseconds Communicator::backend_timeout(c10::DeviceType device) const {
  try {
    return backend_of(device)->getBackendOptions()->timeout;
  } catch (const c10::Error&) {
    return kProcessGroupDefaultTimeout;  // the base class throws: this backend has no options to
                                         // show
  }
}

std::string Communicator::backend_name() const {
  return backend_of(device_)->getBackendName();
}

std::string Communicator::backend_name_for(c10::DeviceType device) const {
  return backend_of(carries(device) ? device : device_)->getBackendName();
}

bool Communicator::carries(c10::DeviceType device) const {
  return backend_of(device) != nullptr;
}

}  // namespace lockstep
