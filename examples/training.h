// Shared parts of the training examples: the loss that they print, and looking for a checkpoint.
#pragma once

#include "lockstep/ddp.h"

#include <torch/torch.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <iostream>
#include <sstream>
#include <string>
#include <unistd.h>

using Group = c10::intrusive_ptr<c10d::ProcessGroup>;

// The loss, averaged over ranks: of the last steps, which rank 0 shows each `log_steps` (0: never)
// in a line that it rewrites on a terminal and prints elsewhere, and of an epoch.
class LossLog {
 public:
  // `steps`: of an epoch, equally many on all ranks.
  LossLog(Group group, std::int64_t steps, std::int64_t log_steps)
      : group_(std::move(group)), steps_(steps), log_steps_(log_steps) {}

  // Behind each step, with this rank's loss. Collective. `epoch` counts from 1.
  void add(std::int64_t epoch, const at::Tensor& loss) {
    of_epoch_ += loss.detach();
    recent_ += loss.detach();
    ++step_;
    if (log_steps_ == 0 || step_ % log_steps_ != 0) return;
    std::ostringstream line;
    line << "epoch " << epoch << ", step " << step_ << " of " << steps_ << ": loss "
         << average(recent_, log_steps_);
    recent_.zero_();
    if (is_shown_) std::cout << "\r" << line.str() << "\033[K" << std::flush;
    if (!is_terminal_) lockstep::print_rank_0(group_, line.str());
  }

  // Behind an epoch: its loss. Collective.
  double end_epoch() {
    if (is_shown_) std::cout << "\r\033[K" << std::flush;
    const double loss = average(of_epoch_, std::max<std::int64_t>(step_, 1));
    of_epoch_.zero_();
    recent_.zero_();
    step_ = 0;
    return loss;
  }

 private:
  double average(const at::Tensor& sum, std::int64_t steps) const {
    const auto loss = sum / static_cast<double>(steps);
    lockstep::all_reduce(group_, loss, lockstep::ReduceOp::AVG, {.name = "loss"});
    return loss.item<double>();
  }

  Group group_;
  std::int64_t steps_, log_steps_, step_ = 0;
  at::Tensor of_epoch_ = torch::zeros({}), recent_ = torch::zeros({});
  bool is_terminal_ = ::isatty(STDOUT_FILENO) != 0;
  bool is_shown_ = is_terminal_ && group_->getRank() == 0;
};

// Where one rank alone sees the file, as on a disk of its own, loading says so on all of them.
inline bool is_seen_by_any_rank(const Group& group, const std::string& path) {
  const bool is_seen = !path.empty() && std::filesystem::exists(path);
  const auto any = torch::full({1}, is_seen ? 1 : 0, torch::kInt64);
  lockstep::all_reduce(group, any, lockstep::ReduceOp::MAX, {.name = "is there a checkpoint"});
  return any.item<std::int64_t>() != 0;
}
