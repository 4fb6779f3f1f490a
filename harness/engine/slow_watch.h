// Which plays take longer than their scenario's usually do, so that a person who waits learns what
// for. No clock of its own: every call says what time it is.
#pragma once

#include "harness/engine/listener.h"

#include <set>

namespace lockstep {

// A play that is slow, at the moment of asking.
struct Slow {
  std::string scenario;
  Setting setting;
  int number = 1, of = 1, play = 1;
  std::chrono::milliseconds so_far{};
  std::optional<std::chrono::milliseconds> usual;  // the longest play before; none: it is the first
};

class SlowWatch {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // A play is slow once it has taken `patience` more than the longest one before it.
  explicit SlowWatch(std::chrono::milliseconds patience) : patience_(patience) {}

  void began(const Turn& turn, Time now);
  void ended(const Turn& turn, Time now);

  // The plays that have become slow since the last call; of one scenario and setting only the
  // first.
  std::vector<Slow> slow(Time now);

 private:
  struct Playing {
    Slow what;
    Time began;
  };

  const std::chrono::milliseconds patience_;
  std::vector<Playing> playing_;
  std::map<std::string, std::chrono::milliseconds> usual_;  // by scenario and setting
  std::set<std::string> named_;
};

}  // namespace lockstep
