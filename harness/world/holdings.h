// What a process has that a case may use and must not leave behind.
#pragma once

#include <string>
#include <vector>

namespace lockstep {

// Only differences mean anything.
struct Holdings {
  int threads = 0;
  int descriptors = 0;
  bool child = false;  // also one that has ended and that nobody waited for

  static Holdings now();

  // What `later` has beyond this, a phrase each: "2 thread(s) more than before".
  std::vector<std::string> more_in(const Holdings& later) const;
};

}  // namespace lockstep
