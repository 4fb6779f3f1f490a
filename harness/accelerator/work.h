#pragma once

#include "harness/accelerator/stream_order.h"

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include <atomic>
#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::accelerator {

// A Work of the inner backend. Its tensors are released when it is seen to be over; otherwise
// memory would be freed later than the program freed it.
class InnerWork {
 public:
  // `before` is the one that the backend issued before it, or null. Keeps none that has succeeded.
  InnerWork(c10::intrusive_ptr<c10d::Work> work, std::shared_ptr<InnerWork> before)
      : work_(std::move(work)), before_(std::move(before)) {
    is_behind_a_failure();
  }

  bool is_over();
  std::exception_ptr failure();  // null before it is over

  // True if one before it failed. On a device it would never run then, and the host would go on;
  // over the inner backend it may wait for a peer that waits for this host.
  bool is_behind_a_failure();

  // Waits until it is over, failed or not; false if `give_up` returns true or the time is over
  // first.
  bool wait_until_over(const std::function<bool()>& give_up, std::chrono::milliseconds timeout);

 private:
  std::shared_ptr<InnerWork> before();

  std::mutex mutex_;
  c10::intrusive_ptr<c10d::Work> work_;  // until it is over
  std::shared_ptr<InnerWork> before_;    // not yet known to have succeeded
  std::exception_ptr failure_;
};

// A collective on a stream of a device, carried by a work of the inner backend.
class CollectiveWork final : public c10d::Work {
 public:
  struct Parts {
    std::shared_ptr<InnerWork> inner;
    c10::Stream stream;  // that it runs on
    c10::Event end;      // recorded after it
    Clock end_clock;     // the same
    c10::DeviceIndex device = 0;
    std::vector<at::Tensor> outputs;
    std::vector<at::Tensor> tensors;                // kept alive until the first wait
    std::string name;                               // as in errors
    std::shared_ptr<std::atomic<bool>> is_aborted;  // the backend's
    bool exit_is_ordered = true;
  };
  CollectiveWork(int rank, c10d::OpType type, Parts parts);
  ~CollectiveWork() override;

  bool isCompleted() override;
  bool isSuccess() const override;
  std::exception_ptr exception() const override;
  bool wait(std::chrono::milliseconds timeout) override;
  void synchronize() override;
  void abort() override;
  std::vector<at::Tensor> result() override;
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;

 private:
  void wait_on_host(std::chrono::milliseconds timeout);

  Parts parts_;
  std::vector<at::Tensor> outputs_;
  mutable std::mutex own_mutex_;
  std::exception_ptr timed_out_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
};

}  // namespace lockstep::accelerator
