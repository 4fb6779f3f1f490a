#pragma once

#include "ddp/failure_notice.h"

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

// A collective that was issued: its handle, its place in the order, and the tensors it works on.
struct Operation {
  c10::intrusive_ptr<c10d::Work> work;
  std::string description;
  std::int64_t sequence_number = 0;
  std::vector<at::Tensor> tensors;
  at::Tensor home;  // the caller's, where another one travels
};

// One instance's way to its group: it numbers collectives, and it is the only place of this library
// that waits for one. Issuing is Collective and does not block; ranks issue the same operations on
// tensors of equal size and dtype in the same order. Tensors are contiguous. One on a device for
// which the group has no backend travels on one for which it has, there and back.
//
// Note [Waits on a device]
// On a device with streams, over a backend that is not Gloo, a wait is that of the current stream:
// the host goes on, and hears of a failure when it comes back: at the next operation that is
// issued, and at look_at_what_is_under_way(). Then the backend's communicator is aborted, so that
// no device goes on waiting for a peer.
//
// `description` names the operation in errors, such as "all-reduce of bucket 2". After one that
// failed every later one does, at once. Copies go the same way, and number for themselves.
class Communicator {
 public:
  // `timeout` holds for each wait; unset, it is the backend's, or five minutes if that has none.
  // Throws UsageError without a group, without a backend for the CPU or CUDA, or if the timeout is
  // not positive.
  Communicator(c10::intrusive_ptr<c10d::ProcessGroup> group,
               std::optional<std::chrono::milliseconds> timeout);

  int rank() const { return group_->getRank(); }
  int world_size() const { return group_->getSize(); }
  std::chrono::milliseconds timeout() const { return timeout_; }

  // Replaces `tensor` by its sum over the ranks, once waited for.
  Operation start_sum(const at::Tensor& tensor, std::string description);

  // Replaces `tensor` by group rank `source`'s, once waited for.
  Operation start_broadcast(const at::Tensor& tensor, std::string description, int source = 0);

  // Every rank's `tensor`, of at least one element, in rank order and on its device. Collective;
  // blocks.
  std::vector<at::Tensor> gather(const at::Tensor& tensor, std::string description);

  // The same in two halves: starts it, and waits for what start_gather returned.
  Operation start_gather(const at::Tensor& tensor, std::string description);
  std::vector<at::Tensor> finish_gather(Operation& operation);

  // Blocks until the operation is over on this rank. Throws CommunicationError if it failed, the
  // timeout passed, or a peer told that it failed. Local.
  void wait(Operation& operation);

  // Whether waits for tensors on such a device are those of a stream.
  bool streams_wait(const c10::Device& device) const;

  // Throws CommunicationError if an operation that a stream waits for has failed since, or is late,
  // or if a peer told why it is not over. Local; does not block.
  void look_at_what_is_under_way();

  // The same, again and again: blocks until `is_over` says so, or until they are over.
  void look_until(const std::function<bool()>& is_over);
  void wait_for_what_is_under_way();

  // From now on waits look for what peers post, and a wait that fails posts its sentence.
  void watch(std::shared_ptr<FailureNotice> notice) { notice_ = std::move(notice); }

  // Ends peers' waits in the forward that this rank is in, and in its backward. Local.
  void tell_of_this_forward(const std::string& sentence);

  // Ends peers' waits: this rank cannot go on. Local.
  void tell(const std::string& sentence);

  // What a peer told, if one did. Local.
  std::optional<std::string> told() const;

  // What is on no device of the group's travels by this one, where the group is bound to none: else
  // it would be the current device, which may be another than the module's and one for all ranks,
  // as where nobody set it. Nothing for a device of another kind. Local.
  void travel_by(const c10::Device& device) { travels_by_ = device; }

  // The same ranks on a group of their own, of which errors tell the name; nothing is sent in this
  // one. Collective; blocks. Throws UsageError, on all ranks, where the backend cannot be split.
  Communicator apart(const std::string& name);

  // Ends what is under way on devices whose streams wait, over every backend of the group, for
  // good: after a failure elsewhere, too, a device would wait for peers that issue nothing any
  // more. Local.
  void let_go_of_devices() const;

  // Waits as long as that one does.
  void take_timeout_of(const Communicator& other) { timeout_ = other.timeout_; }

  std::string backend_name() const;

  // Whether tensors of such a device can travel.
  bool carries(c10::DeviceType device) const;

 private:
  template <class Issue>
  Operation start(std::vector<at::Tensor> tensors, std::string description, Issue issue);
  // Null where the group has none.
  c10::intrusive_ptr<c10d::Backend> backend_of(c10::DeviceType device) const;
  at::Tensor where_it_travels(const at::Tensor& tensor) const;
  void wait_in_slices(Operation& operation);
  void ask_until_it_is_over(Operation& operation);
  void wait_on_stream(Operation& operation);
  // What a peer told, or that nobody can tell any more; empty while neither. `since`: of the wait.
  std::string heard(std::chrono::steady_clock::time_point since);
  static std::chrono::milliseconds elapsed_since(std::chrono::steady_clock::time_point start);
  std::string late() const;
  // Nothing while it is under way; empty where it went well.
  std::optional<std::string> how_it_ended(const Operation& operation) const;

  [[noreturn]] void fail(const Operation& operation, std::chrono::milliseconds waited,
                         std::string cause) const;

  c10::intrusive_ptr<c10d::ProcessGroup> group_;
  c10::DeviceType device_ = c10::DeviceType::CPU;
  std::optional<c10::Device> travels_by_;
  std::chrono::milliseconds timeout_;
  std::int64_t issued_count_ = 0;
  struct UnderWay {
    Operation operation;
    std::chrono::steady_clock::time_point since;
  };
  std::deque<UnderWay> under_way_;  // what streams wait for
  std::chrono::steady_clock::time_point last_look_;
  std::optional<std::chrono::steady_clock::time_point> without_store_since_;
  std::shared_ptr<FailureNotice> notice_;
  // What failed first, for copies too: what is issued after it would meet what peers issued before.
  std::shared_ptr<std::string> failure_ = std::make_shared<std::string>();
  std::string name_;  // of a group apart
};

}  // namespace lockstep
