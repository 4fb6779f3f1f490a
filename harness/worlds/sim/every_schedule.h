// Every schedule of a world, one after another: first those that differ in the first choice, then
// those that differ in the first two, and so on. So one that ends early has covered the beginning
// of a run completely, where counting from the end would have varied its last choices alone. No
// torch.
#pragma once

#include "harness/worlds/sim/chooser.h"

#include <cstdint>

namespace lockstep::sim {

class EverySchedule {
 public:
  // The choices that a schedule begins with; after them the first rank runs, as in a "listed" one.
  // The first schedule has none. Only while is_complete() is false.
  std::vector<int> next();

  // The choices that were made in the schedule that next() returned.
  void made(std::vector<Choice> choices);

  // How many schedules were made; and true once there is no other.
  int64_t count() const { return count_; }
  bool is_complete() const { return is_complete_; }

  // No other schedule differs from all that were made within so many choices.
  int decisions() const { return static_cast<int>(level_); }

 private:
  void move_on();

  // The choices that may be varied at `level_` or later. Each was made by varying an earlier
  // choice, and has the first rank from there on.
  std::vector<std::vector<Choice>> varied_;
  size_t level_ = 0, base_ = 0, of_level_ = 0;  // of_level_: in varied_ before this level
  int taken_ = 0;                               // at level_ of varied_[base_]
  int64_t count_ = 0;
  bool is_complete_ = false;
};

}  // namespace lockstep::sim
