// Resources of a process that a case may use and must not leave behind.
#pragma once

#include <chrono>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace lockstep {

// Only differences between two of them mean anything.
struct Holdings {
  int threads = 0;
  int descriptors = 0;  // except connections accepted by a port of `listening_ports`
  bool child = false;   // also one that has ended and was not waited for
  // The ports on which this process listened when the first of several was taken. Anybody can
  // connect there, at any time: that is not caused by a case.
  std::set<uint16_t> listening_ports;

  static Holdings now();

  // The holdings of this process later, to be compared with this.
  Holdings later() const;

  // Returns what `later` has beyond this, a phrase each: "2 thread(s) more than before".
  std::vector<std::string> more_in(const Holdings& later) const;

  // Returns what this process holds beyond this, as above, and still holds after `limit`: threads
  // that end and connections that close in the background are no leak. Blocks only where there is
  // more.
  std::vector<std::string> lasting_more(
      std::chrono::milliseconds limit = std::chrono::milliseconds(500)) const;
};

}  // namespace lockstep
