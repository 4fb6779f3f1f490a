// The files that a training leaves, and calls that wait for a rank that comes late to them.
#pragma once

#include "harness/rank/rank_context.h"
#include "harness/verdict/verdict.h"
#include "scenarios/checkpoint/life.h"

namespace lockstep::scenarios::checkpoint {

// One file for all ranks, in a folder of its own.
std::string path_of(RankContext& here);

// Collective. After the last save: which files are there, and the step that each holds.
void record_files(const Resumed& c, RankContext& here, const std::string& path);
Findings files_are_those_to_keep(const Resumed& c, const History& h);
Findings each_file_holds_its_step(const Resumed& c, const History& h);

// Saves or loads once more, which the late rank of the case does only when its peers have given up.
void wait_for_the_late_rank(const Resumed& c, RankContext& here, const std::string& path);
Findings calls_end_in_time(const Resumed& c, const History& h);

}  // namespace lockstep::scenarios::checkpoint
