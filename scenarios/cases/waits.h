// A rank that its peers do not wait for.
#pragma once

#include "harness/rank/rank_context.h"
#include "harness/verdict/compare.h"

#include <functional>

namespace lockstep::scenarios {

// Calls `wait` just before what is collective, and has a timeout.
using LateCall = std::function<void(const std::function<void()>& wait)>;

// The timeout that ends a wait is the call's or its group's.
enum class TimeoutOf { call, group };

// Rank `late` waits until its peers have given up; then it calls too, so that what they have sent
// is not left behind. Each rank records whether it gave up in time, as its error says, which
// names the timeout of the call, or of its group, where it names any.
void record_wait_for(int late, int64_t timeout_ms, const LateCall& call, RankContext& here,
                     TimeoutOf whose = TimeoutOf::call);

// The records of these at a moment.
Findings gave_up_in_time(const char* rule, const Moment& at, const History& h);

}  // namespace lockstep::scenarios
