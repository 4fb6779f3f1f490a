// A rank that makes no forward until its peers have given up waiting for it in a layer.
#pragma once

#include "harness/rank/rank_context.h"
#include "harness/verdict/verdict.h"
#include "scenarios/sync_batch_norm/under_ddp.h"

#include <functional>

namespace lockstep::scenarios::sync_batch_norm {

int late(const UnderDdp& c);  // the rank; -1: none

// The layer's own timeout and the replica's. Buffers are not broadcast, nor buckets planned anew:
// either would wait for the rank before the layer does.
void set_timeouts(const UnderDdp& c, NormOptions& norm, WrapOptions& options);

void record_wait_for_the_late_rank(const UnderDdp& c, RankContext& here,
                                   const std::function<void()>& forward);

Findings a_layer_waits_as_long_as_it_says(const UnderDdp& c, const History& h);

}  // namespace lockstep::scenarios::sync_batch_norm
