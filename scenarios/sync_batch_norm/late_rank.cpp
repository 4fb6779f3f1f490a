#include "scenarios/sync_batch_norm/late_rank.h"

#include "harness/verdict/compare.h"
#include "scenarios/cases/sentences.h"

#include <chrono>
#include <regex>

namespace lockstep::scenarios::sync_batch_norm {

namespace {

constexpr const char* kLate = "after the late rank";
constexpr int64_t kLateMs = 10'000, kShortMs = 400, kLongMs = 1200;

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
  const auto key = [](int rank) { return "rank " + std::to_string(rank) + " has given up"; };
  here.enter(c.steps, kLate);
  int64_t waited = 0;  // in the layer, as the error says
  if (here.rank() == late(c)) {
    std::vector<std::string> peers;
    for (int rank = 0; rank < c.world.size; ++rank)
      if (rank != here.rank()) peers.push_back(key(rank));
    here.store()->wait(peers);
    error_of(forward);  // so that what the peers have sent is not left behind
  } else {
    // Where no host waits for a device, a later call looks.
    std::string error;
    const auto late = std::chrono::steady_clock::now() + std::chrono::milliseconds(kLateMs);
    do error = error_of(forward);
    while (error.empty() && std::chrono::steady_clock::now() < late);
    std::smatch found;
    if (std::regex_search(error, found, std::regex("failed after ([0-9]+) ms")))
      waited = std::stoll(found[1]);
    here.store()->set(key(here.rank()), std::string("yes"));
  }
  const bool is_in_time = timeout_of_layer(c) <= waited && waited < kLateMs;
  here.record("gave up in time", std::vector<int64_t>{here.rank() == late(c) || is_in_time});
}

Findings a_layer_waits_as_long_as_it_says(const UnderDdp& c, const History& h) {
  if (late(c) < 0) return {};
  return equal(
      "A layer must wait for a late rank as long as its own timeout says, no less",
      {{.row = h.row({c.steps, kLate}, "gave up in time"), .expected = {int64_values({1})}}});
}

}  // namespace lockstep::scenarios::sync_batch_norm
