#include "harness/worlds/sim/every_schedule.h"

#include <algorithm>
#include <utility>

namespace lockstep::sim {

std::vector<int> EverySchedule::next() {
  std::vector<int> choices;
  if (count_ == 0) return choices;
  for (size_t i = 0; i < level_; ++i) choices.push_back(varied_[base_][i].taken);
  choices.push_back(taken_);
  return choices;
}

void EverySchedule::made(std::vector<Choice> choices) {
  varied_.push_back(std::move(choices));
  if (count_++ == 0) of_level_ = 1;
  move_on();
}

// To the next rank for this choice, else to the next schedule that has such a choice, else to the
// next choice.
void EverySchedule::move_on() {
  ++taken_;
  for (;;) {
    for (; base_ < of_level_; ++base_, taken_ = 1)
      if (varied_[base_].size() > level_ && taken_ < varied_[base_][level_].of) return;
    ++level_;
    std::erase_if(varied_, [this](const auto& choices) { return choices.size() <= level_; });
    base_ = 0;
    of_level_ = varied_.size();
    taken_ = 1;
    if (varied_.empty()) break;
  }
  is_complete_ = true;
}

}  // namespace lockstep::sim
