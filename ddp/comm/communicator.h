#pragma once

#include "ddp/comm/failure_notice.h"

#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace lockstep {

class Watchdog;

// A collective that was issued: its handle, its place in the order, and the tensors it works on.
struct Operation {
  std::shared_ptr<c10d::Work> work;  // Note [The Work of a lost device]
  std::string description;
  std::int64_t sequence_number = 0;
  std::int64_t issued_before = 0;  // FailureNotice::count_issue
  std::vector<at::Tensor> tensors;
  at::Tensor home;  // the caller's tensor, where a copy is sent instead
  std::chrono::steady_clock::time_point issued_at{};
};

// The collectives of one instance: it numbers them, and it is the only place of this library that
// waits for one. Issuing is Collective and does not block; ranks issue the same operations on
// tensors of equal size and dtype in the same order. Tensors are contiguous. A tensor on a device
// for which the group has no backend is copied to a device that has one, and the result is copied
// back.
//
// Note [Waits on a device]
// On a device with streams, over a backend that is not Gloo, the current stream waits: the host
// continues, and learns of a failure at the next operation that is issued or at
// look_at_what_is_under_way(). Then the backend's communicator is aborted, so that no device keeps
// waiting for a peer.
//
// `description` names the operation in errors, such as "all-reduce of gradient bucket 2". After an
// operation that failed, every later one fails at once. Copies of a Communicator use the same
// group, and each counts its own operations.
class Communicator {
 public:
  // `timeout` limits each wait; unset, it is the backend's, or half an hour if that has none.
  // Throws UsageError without a group, without a backend for the CPU or CUDA, or if the timeout is
  // not positive.
  Communicator(c10::intrusive_ptr<c10d::ProcessGroup> group,
               std::optional<std::chrono::milliseconds> timeout);

  int rank() const { return group_->getRank(); }
  int world_size() const { return group_->getSize(); }
  std::chrono::milliseconds timeout() const { return timeout_; }

  // Replaces `tensor` by its sum over the ranks, complete after wait().
  Operation start_sum(const at::Tensor& tensor, std::string description);

  // Replaces `tensor` by that of group rank `source`, complete after wait().
  Operation start_broadcast(const at::Tensor& tensor, std::string description, int source = 0);

  // Returns every rank's `tensor`, of at least one element, in rank order and on its device.
  // Collective; blocks.
  std::vector<at::Tensor> gather(const at::Tensor& tensor, std::string description);

  // A collective that the program itself issued, perhaps on another group, whose result is
  // `tensor`: for wait(), which treats it as the next operation of this communicator. Local.
  Operation follow(c10::intrusive_ptr<c10d::Work> work, const at::Tensor& tensor,
                   std::string description) const;

  // Any other collective: `issue` starts it on `tensors`, of which the first is the result. They
  // are where tensors of this group travel.
  using Issue = std::function<c10::intrusive_ptr<c10d::Work>(c10d::ProcessGroup& group,
                                                             std::vector<at::Tensor>& tensors)>;
  Operation start_other(std::vector<at::Tensor> tensors, std::string description,
                        const Issue& issue);

  // `tensor`, or a copy of it on a device for which the group has a backend.
  at::Tensor where_it_travels(const at::Tensor& tensor) const;

  // gather() in two halves: finish_gather waits for the operation that start_gather returned.
  Operation start_gather(const at::Tensor& tensor, std::string description);
  std::vector<at::Tensor> finish_gather(Operation& operation);

  // Blocks until the operation is over on this rank. Throws CommunicationError if it failed, the
  // timeout passed, or a peer reported a failure. Local.
  void wait(Operation& operation);

  // True if a stream, rather than the host, waits for tensors on such a device.
  bool streams_wait(const c10::Device& device) const;

  // Throws CommunicationError if an operation that a stream waits for has failed or is late, or if
  // a peer reported why it is not over. Local; does not block.
  void look_at_what_is_under_way();

  // Repeats that check: blocks until `is_over` returns true, or until those operations are over.
  void look_until(const std::function<bool()>& is_over);
  void wait_for_what_is_under_way();

  // This rank cannot continue for a reason of its own: peers' waits end with the error that this
  // throws. Local. Throws CommunicationError.
  [[noreturn]] void fail(std::string description, std::string cause) const;

  // From now on, waits poll for peers' errors, and a wait that fails posts its error message.
  void watch(std::shared_ptr<FailureNotice> notice) { notice_ = std::move(notice); }

  // The same for an instance's own communicator, whose operations PeacefulEnd counts: a wait for a
  // collective that an ended peer will not issue fails too.
  void watch_as_instance(std::shared_ptr<FailureNotice> notice) {
    notice_ = std::move(notice);
    is_instances_ = true;
  }

  // Operations of this communicator, so far. Local.
  std::int64_t issued_count() const { return issued_count_; }
  bool has_failed() const { return !failure_->empty(); }

  // Fails peers' waits in the backward of the forward that this rank is in. Local.
  void report_thrown_backward(const std::string& sentence);

  // Fails peers' waits: this rank cannot continue. Local.
  void report(const std::string& sentence);

  // The error that a peer reported, and that concerns what is issued from now on, or nothing.
  // Local.
  std::optional<std::string> peer_error() const;

  // Tensors on a device without a backend are sent by way of `device`, where the group is bound to
  // no device: the current device may not be the module's, and may be the same on all ranks where
  // nobody set it. No effect for a device of another kind. Local.
  void travel_by(const c10::Device& device) { travels_by_ = device; }

  // A communicator of the same ranks on a new group, which errors call `name`; nothing is sent in
  // this one. Collective; blocks. Throws UsageError, on all ranks, where the backend cannot be
  // split; it begins with `need`, why there has to be a new group.
  Communicator split(
      const std::string& name,
      const std::string& need = "another DistributedDataParallel lives on this process group");

  // Aborts, for good, the operations under way on devices whose streams wait, over every backend of
  // the group: otherwise, after a failure elsewhere too, a device would wait for peers that issue
  // nothing any more. Local.
  void abort_device_backends() const;

  // From now on, waits have this positive timeout, also that of a split group's backends; unset, it
  // is the backend's again. Local.
  void set_timeout(std::optional<std::chrono::milliseconds> timeout);

  // From now on, waits have the timeout of `other`.
  void take_timeout_of(const Communicator& other);

  std::string backend_name() const;

  // The name of the backend that carries tensors of such a device, or copies of them.
  std::string backend_name_for(c10::DeviceType device) const;

  // True if the group has a backend for tensors of such a device.
  bool carries(c10::DeviceType device) const;

 private:
  std::shared_ptr<c10d::Work> shared(c10::intrusive_ptr<c10d::Work> work,
                                     const c10::Device& device) const;
  template <class Issue>
  Operation start(std::vector<at::Tensor> tensors, std::string description, Issue issue);
  // Null where the group has none.
  c10::intrusive_ptr<c10d::Backend> backend_of(c10::DeviceType device) const;
  // The backend's own deadline, or half an hour if it has none.
  std::chrono::milliseconds backend_timeout(c10::DeviceType device) const;
  void wait_in_slices(Operation& operation);
  void ask_until_it_is_over(Operation& operation);
  void wait_on_stream(Operation& operation);
  // Why to wait no longer: the error of a peer, or that a peer has ended, or that the store no
  // longer answers; empty while none of these holds. The wait began at `since`.
  std::string poll_peer_error(const Operation& operation,
                              std::chrono::steady_clock::time_point since);
  // The error of a peer, or that it has ended and will not issue `operation`; empty while neither.
  std::string why_a_peer_is_missing(const Operation& operation) const;
  static std::chrono::milliseconds elapsed_since(std::chrono::steady_clock::time_point start);
  std::string late(std::chrono::milliseconds timeout) const;
  std::string text_of(const Operation& operation) const;
  std::string awaited(const Operation& operation) const;
  // The next one that is issued, without its tensors.
  Operation next_operation(std::string description) const;
  // Why the backend gave up an operation that the host waits for.
  std::string cause_of(const std::exception& error, const Operation& operation,
                       Watchdog& watchdog) const;
  // Nothing while it is under way; empty if it succeeded.
  std::optional<std::string> how_it_ended(const Operation& operation) const;

  std::string cause_with_ended_peer(const Operation& operation, std::string cause) const;
  [[noreturn]] void fail(const Operation& operation, std::chrono::milliseconds waited,
                         std::string cause) const;

  c10::intrusive_ptr<c10d::ProcessGroup> group_;
  c10::DeviceType device_ = c10::DeviceType::CPU;
  std::optional<c10::Device> travels_by_;
  std::chrono::milliseconds timeout_{}, group_timeout_{};
  bool timeout_is_given_ = false;  // by the option of this object, else by the group's
  std::int64_t issued_count_ = 0;
  struct UnderWay {
    Operation operation;
    std::chrono::steady_clock::time_point since;
  };
  std::deque<UnderWay> under_way_;  // operations that streams wait for
  std::chrono::steady_clock::time_point last_look_;
  std::optional<std::chrono::steady_clock::time_point> without_store_since_;
  std::shared_ptr<FailureNotice> notice_;
  bool is_instances_ = false;
  // The first failure, shared with copies: an operation issued after it would match an earlier one
  // of the peers.
  std::shared_ptr<std::string> failure_ = std::make_shared<std::string>();
  std::string name_;  // of a split group
};

}  // namespace lockstep
