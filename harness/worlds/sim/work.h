// A collective under way, as one simulated rank sees it.
#pragma once

#include "harness/worlds/sim/scheduler.h"

#include <torch/csrc/distributed/c10d/Work.hpp>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::sim {

// Waits for an event of the scheduler. It fails on its own when `timeout` has passed since it was
// issued, as Gloo's do.
class SimWork final : public c10d::Work {
 public:
  struct Parts {
    Scheduler& scheduler;
    Event& over;
    std::string& error;
    std::shared_ptr<void> owner;  // of the event and the error
    What what;
    std::vector<at::Tensor> outputs;
    std::chrono::milliseconds timeout;
    std::function<int()> source = [] { return -1; };
    std::function<void()> arrive = [] {};  // called when the rank has seen that it is over
  };
  explicit SimWork(Parts parts);

  bool isCompleted() override;
  bool isSuccess() const override { return is_over() && error().empty(); }
  std::exception_ptr exception() const override;
  int sourceRank() const override { return parts_.source(); }
  std::vector<at::Tensor> result() override { return parts_.outputs; }
  void synchronize() override {}
  bool wait(std::chrono::milliseconds timeout) override;

  // Blocks until it is over.
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;

 private:
  bool has_come() const;  // from all ranks
  bool is_late() const;
  bool is_over() const { return has_come() || is_late(); }
  std::string error() const;

  const Parts parts_;
  const std::optional<Nanoseconds> deadline_;
};

}  // namespace lockstep::sim
