// The records of one rank of a case as a file, which a program that is not ours could write.
#pragma once

#include "harness/base/case.h"
#include "harness/history/history.h"

#include <utility>
#include <vector>

namespace lockstep {

// The rank of a world and its case, by hash, whose records a file holds.
struct HistoryOf {
  int rank = 0, world = 1;
  std::string case_hash;
};

// The bytes of a file: the record that begins it, and those of frames_of with times.
std::string history_file(const RankHistory& rank, const HistoryOf& of);

// "rank3.history".
std::string history_name(int rank);

// The files of a whole case's history, by name.
std::vector<std::pair<std::string, std::string>> history_files_of(const Case& c,
                                                                  const History& history);

}  // namespace lockstep
