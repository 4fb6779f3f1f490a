// Reads the facts of optimizers: hyper-parameters, and which parameters they update.
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

// The parameters that an optimizer's fact says it updates: {model, name} each.
std::vector<std::pair<std::string, std::string>> owned_in(const Fact& optimizer);
// ... or those in another field of it.
std::vector<std::pair<std::string, std::string>> names_in(const Fact& optimizer, const char* field);

}  // namespace lockstep::recorded
