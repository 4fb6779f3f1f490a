#pragma once

#include "ddp/logging_data.h"

#include <chrono>
#include <cstdint>
#include <optional>

namespace lockstep {

// Times the steps of one instance: the first ten, then one in `sample_rate`. A step that is not
// timed costs one comparison at each mark. Local; does not block; without torch.
class StepTimes {
 public:
  using Clock = std::chrono::steady_clock;
  using Now = Clock::time_point (*)();

  explicit StepTimes(int sample_rate = 100, Now now = Clock::now);

  // At least 1, else UsageError.
  void set_sample_rate(int sample_rate);

  // Called in this order in each step, possibly more than once (the first call of each counts). A
  // step that ends with an error is discarded when the next begins.
  void forward_begins(std::int64_t iteration);
  void backward_begins() { mark(backward_begin_); }
  void first_bucket_leaves() { mark(communication_begin_); }
  void backward_computed() { mark(backward_end_); }
  void buckets_are_back();

  // Fills in the times and averages.
  void fill(LoggingData& data) const;

 private:
  using Moment = std::optional<Clock::time_point>;
  void mark(Moment& moment) {
    if (is_timed_ && !moment) moment = now_();
  }

  int sample_rate_ = 0;
  Now now_;
  bool is_timed_ = false;
  Moment forward_begin_, backward_begin_, communication_begin_, backward_end_;
  std::int64_t count_ = 0;
  std::chrono::nanoseconds forward_{0}, backward_{0}, communication_{0}, overlap_{0};
  std::chrono::nanoseconds forward_sum_{0}, backward_sum_{0}, communication_sum_{0},
      overlap_sum_{0};
};

}  // namespace lockstep
