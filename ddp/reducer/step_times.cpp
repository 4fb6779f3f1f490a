#include "ddp/reducer/step_times.h"

#include "ddp/errors.h"

#include <algorithm>
#include <string>

namespace lockstep {

namespace {

constexpr std::int64_t kAlwaysTimed = 10;

}  // namespace

StepTimes::StepTimes(int sample_rate, Now now) : now_(now) {
  set_sample_rate(sample_rate);
}

void StepTimes::set_sample_rate(int sample_rate) {
  if (sample_rate < 1) {
    throw UsageError("the sample rate of the runtime logging is " + std::to_string(sample_rate) +
                     ", expected at least 1");
  }
  sample_rate_ = sample_rate;
}

void StepTimes::forward_begins(std::int64_t iteration) {
  is_timed_ = iteration < kAlwaysTimed || iteration % sample_rate_ == 0;
  if (!is_timed_) return;
  forward_begin_ = now_();
  backward_begin_ = communication_begin_ = backward_end_ = std::nullopt;
}

void StepTimes::buckets_are_back() {
  if (!is_timed_ || !forward_begin_ || !backward_begin_ || !communication_begin_ ||
      !backward_end_) {
    return;
  }
  const auto end = now_();
  forward_ = *backward_begin_ - *forward_begin_;
  backward_ = *backward_end_ - *backward_begin_;
  communication_ = end - *communication_begin_;
  overlap_ = std::max(std::chrono::nanoseconds(0),
                      std::chrono::nanoseconds(*backward_end_ - *communication_begin_));
  forward_sum_ += forward_;
  backward_sum_ += backward_;
  communication_sum_ += communication_;
  overlap_sum_ += overlap_;
  ++count_;
  is_timed_ = false;
}

void StepTimes::fill(LoggingData& data) const {
  data.timed_iterations = count_;
  data.forward_compute_time = forward_;
  data.backward_compute_time = backward_;
  data.backward_comm_time = communication_;
  data.backward_compute_comm_overlap_time = overlap_;
  const std::int64_t count = std::max(count_, std::int64_t{1});
  data.avg_forward_compute_time = forward_sum_ / count;
  data.avg_backward_compute_time = backward_sum_ / count;
  data.avg_backward_comm_time = communication_sum_ / count;
  data.avg_backward_compute_comm_overlap_time = overlap_sum_ / count;
}

}  // namespace lockstep
