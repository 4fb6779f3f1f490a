// Inputs that layers of the subject's own refuse, and a rank that the converted ones do not wait
// for.
#pragma once

#include "harness/rank/rank_context.h"
#include "harness/verdict/verdict.h"
#include "scenarios/sync_batch_norm/converted.h"

namespace lockstep::scenarios::sync_batch_norm {

bool has_a_misfit(const Converted& c);

// Calls each layer of the subject's own with an axis too many, and records what it throws.
void record_misfits(const Converted& c, RankContext& here, const NormLayers& norms,
                    const ModulePtr& root);
Findings misfits_are_refused(const Converted& c, const History& h);

// Converts the model, whose first layer the late rank then calls last.
void wait_for_the_late_rank(const Converted& c, RankContext& here, const NormLayers& norms,
                            const ModulePtr& root);
Findings layers_wait_as_long_as_converted(const Converted& c, const History& h);

}  // namespace lockstep::scenarios::sync_batch_norm
