#include "scenarios/collectives/late_rank.h"

#include "harness/worlds/subject.h"
#include "scenarios/cases/devices.h"
#include "scenarios/cases/waits.h"

#include <torch/torch.h>

namespace lockstep::scenarios::collectives {

namespace {

constexpr const char* kLate = "after the late rank";
constexpr int64_t kTimeoutMs = 400;

}  // namespace

int late_rank(const Called& c) {
  return c.late < 0 || c.world.size == 1 ? -1 : c.late % c.world.size;
}

void wait_for_the_late_rank(const Called& c, RankContext& here) {
  refuse_where_the_simulation_waits(here, "the end of its timeout");
  const auto kind = calls_of(c).back().kind;
  std::vector<int> ranks;  // of a group whose timeout it is, in half of the cases
  for (int rank = 0; c.late % 2 == 0 && rank < here.size(); ++rank) ranks.push_back(rank);
  here.enter(static_cast<int>(calls_of(c).size()), kLate);
  const auto call = [&](const auto& wait) {
    ProgramCollective sent{.kind = kind,
                           .tensor = at::ones({1}, at::TensorOptions().device(here.device())),
                           .parts = {},
                           .ranks = ranks,
                           .timeout_ms = kTimeoutMs,
                           .beforehand = wait};
    if (kind == CollectiveKind::scatter && here.rank() == 0)
      sent.parts.assign(static_cast<size_t>(here.size()), sent.tensor);
    collective(here, sent);
  };
  record_wait_for(late_rank(c), kTimeoutMs, call, here,
                  ranks.empty() ? TimeoutOf::call : TimeoutOf::group);
}

Findings calls_end_in_time(const Called& c, const History& h) {
  if (late_rank(c) < 0) return {};
  return gave_up_in_time("A call must wait for a late rank as long as its own timeout says",
                         {static_cast<int>(calls_of(c).size()), kLate}, h);
}

}  // namespace lockstep::scenarios::collectives
