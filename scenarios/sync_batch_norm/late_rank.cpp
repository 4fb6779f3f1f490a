#include "scenarios/sync_batch_norm/late_rank.h"

#include "scenarios/cases/waits.h"

namespace lockstep::scenarios::sync_batch_norm {

namespace {

constexpr const char* kLate = "after the late rank";
constexpr int64_t kShortMs = 400, kLongMs = 1200;

int64_t timeout_of_layer(const UnderDdp& c) {
  return c.layer_waits_longer ? kLongMs : kShortMs;
}

}  // namespace

int late(const UnderDdp& c) {
  return c.late < 0 || c.norm == NormKind::plain || c.world.size == 1 ? -1 : c.late % c.world.size;
}

void set_timeouts(const UnderDdp& c, NormOptions& norm, WrapOptions& options) {
  norm.timeout_ms = timeout_of_layer(c);
  options.further.timeout_ms = c.layer_waits_longer ? kShortMs : 10 * kLongMs;
  options.broadcast_buffers = false;
  options.find_unused_parameters = true;
}

void record_wait_for_the_late_rank(const UnderDdp& c, RankContext& here,
                                   const std::function<void()>& forward) {
  here.enter(c.steps, kLate);
  const auto late_forward = [&](const auto& wait) {
    wait();
    forward();
  };
  record_wait_for(late(c), timeout_of_layer(c), late_forward, here);
}

Findings a_layer_waits_as_long_as_it_says(const UnderDdp& c, const History& h) {
  if (late(c) < 0) return {};
  return gave_up_in_time(
      "A layer must wait for a late rank as long as its own timeout says, no less",
      {c.steps, kLate}, h);
}

}  // namespace lockstep::scenarios::sync_batch_norm
