// What ranks write, passed on line by line.
#pragma once

#include "harness/process/descriptor.h"

#include <string>
#include <unistd.h>

namespace lockstep::cli {

// What one stream of a rank has said, until whole lines of it are written.
struct RankStream {
  int rank = 0;
  int to = STDOUT_FILENO;
  Descriptor from;
  std::string begun = {};  // a line
};

// Reads what is there, and writes the lines that are whole, each with its rank in front; a line
// that has no end for a megabyte is given one. Closes the stream at its end, and where nobody can
// be given what it says: a rank that goes on is ended by SIGPIPE then, as in a pipeline without us.
// Returns why nobody can, or 0.
int read_some(RankStream& stream);

}  // namespace lockstep::cli
