#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace lockstep {

std::vector<std::uint8_t> bytes_of(const std::string& text);
std::string text_of(const std::vector<std::uint8_t>& bytes);

// Whether a key is there by the deadline. Blocks until then. Throws what the store throws.
bool appears(c10d::Store& store, const std::string& key,
             std::chrono::steady_clock::time_point deadline);

// Whoever leaves may hold the store, and with it what the others are still to read. So all stay
// until `expected` processes have read, or all that have come, without the `done` that have nothing
// to read, where these are more. The dead do not read: blocks for two seconds at most. Rank 0,
// which mostly holds the store, goes a moment later, since c10d prints stacks where it is gone.
// `readers` is the key at which they count. Throws nothing: where the store is gone, all is over.
void stay_until_read(c10d::Store& store, const std::string& readers, int rank,
                     std::int64_t expected, std::int64_t done = 0);

// An outcome with which the step went well.
inline const std::string kNothingToTell = "all";

// How one step of a meeting ends, for all: as the first says who knows. Holds no state but the
// store's. Everything is local and throws what the store throws.
class Outcome {
 public:
  // `step` is part of its keys. `awaited` are other keys that somebody may wait for in this step:
  // once there is an outcome they are there, so that all wake and look. (Polling a TCPStore by
  // waits that end in vain would print two warnings a time.)
  Outcome(c10d::Store& store, const std::string& step, std::vector<std::string> awaited);

  // Before this process does anything else in the store: from now on nobody leaves it behind.
  void count_me_in();

  // The key that is there once there is an outcome.
  std::string told() const { return key_ + "/told"; }

  bool is_there() const;
  std::string get() const;

  // Returns what it is: `text`, or what somebody said before.
  std::string say(const std::string& text);

  // stay_until_read() for the processes that are to read this one.
  void stay(int rank, std::int64_t expected, std::int64_t done = 0);

 private:
  c10d::Store& store_;
  std::string key_, readers_;
  std::vector<std::string> awaited_;
};

}  // namespace lockstep
