// The standard output and error of ranks, kept in memory of the process that forks them, where it
// outlives the ranks.
#pragma once

#include "harness/process/descriptor.h"

#include <filesystem>
#include <string>
#include <vector>

namespace lockstep {

class Capture {
 public:
  // Makes room for the output of ranks 0 to ranks - 1, and forgets what was there.
  void start(int ranks);

  // In the child that is `rank`: redirects its output to here. Lines are whole even if the child is
  // killed.
  void redirect(int rank);

  // In a process whose ranks run in turn: until the next call its output is that of `rank`.
  void switch_to(int rank);

  // The output of one rank.
  struct Output {
    std::string out, err;
  };
  Output of(int rank) const;

  // Writes rank0.out, rank0.err, ... into `folder`, which is made; empty files are left out. Throws
  // std::filesystem::filesystem_error.
  void keep(const std::filesystem::path& folder) const;

  // The same for one rank, from its output.
  static void keep(const std::filesystem::path& folder, int rank, const Output& output);

 private:
  struct Files {
    Descriptor out, err;
  };
  std::vector<Files> by_rank_;
  int ranks_ = 0;  // of the last start
};

}  // namespace lockstep
