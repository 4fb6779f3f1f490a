// The hyper-parameters of optimizers.
#pragma once

#include "harness/recorded/recorded_run.h"

#include <map>

namespace lockstep::recorded {

// The fields of an optimizer's groups as "lr of group 0" -> text.
std::map<std::string, std::string> settings_of(const Fact& optimizer);

// "lr of group 0 of optimizer 0: `here` 0.2, `there` 0.1" of the first field in which two differ;
// empty where none does.
std::string other_setting(const Fact& a, const Fact& b, const std::string& here,
                          const std::string& there);

// The facts of each optimizer's updates, in order, with the steps in which they were made.
struct Update {
  int step = 0;
  const Fact* optimizer = nullptr;
};
std::map<std::string, std::vector<Update>> updates_by_optimizer(const Rank& rank);

}  // namespace lockstep::recorded
