// Finds running cases that take longer than usual for their scenario, so that a waiting person
// learns the reason; and lists running cases. No clock of its own: every call passes the time.
#pragma once

#include "harness/cases/listener.h"

#include <set>

namespace lockstep {

// A case that is running at the moment of the call.
struct Slow {
  std::string scenario;
  Setting setting;
  int number = 1, of = 1, run = 1;
  std::chrono::milliseconds so_far{};
  std::optional<std::chrono::milliseconds> usual;  // the longest run before; none: it is the first
};

class SlowWatch {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // A run is slow once it has taken `patience` more than the longest one before it.
  explicit SlowWatch(std::chrono::milliseconds patience) : patience_(patience) {}

  void began(const Turn& turn, Time now);
  void ended(const Turn& turn, Time now);

  // The runs that have become slow since the last call; only the first of one scenario and setting.
  std::vector<Slow> slow(Time now);

  // All runs that have begun and not ended, the oldest first.
  std::vector<Slow> running(Time now) const;

 private:
  struct RunningJob {
    Slow what;
    Time began;
  };

  const std::chrono::milliseconds patience_;
  std::vector<RunningJob> running_;
  std::map<std::string, std::chrono::milliseconds> usual_;  // by scenario and setting
  std::set<std::string> named_;
};

}  // namespace lockstep
