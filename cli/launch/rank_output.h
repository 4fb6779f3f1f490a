// Forwards the ranks' output line by line.
#pragma once

#include "harness/process/descriptor.h"

#include <string>
#include <unistd.h>

namespace lockstep::cli {

// One output stream of a rank, and what it holds until a whole line is written.
struct RankStream {
  int rank = 0;
  int to = STDOUT_FILENO;
  Descriptor from;
  std::string begun = {};  // an unfinished line
};

// Reads the available output and writes whole lines, each prefixed with its rank; a longer one is
// broken after a megabyte. Closes the stream at its end, and on a write error: a rank that
// continues to write then gets SIGPIPE, as in a pipeline without us. Returns the write's errno, or
// 0.
int read_some(RankStream& stream);

}  // namespace lockstep::cli
