#include "harness/campaign/slow_watch.h"

#include <algorithm>

namespace lockstep {

namespace {

using std::chrono::milliseconds;

std::string key(const std::string& scenario, const Setting& setting) {
  return scenario + " " + setting.subject + " " + setting.tier + " " + setting.backend;
}

milliseconds between(SlowWatch::Time began, SlowWatch::Time now) {
  return std::chrono::duration_cast<milliseconds>(now - began);
}

}  // namespace

void SlowWatch::began(const Turn& turn, Time now) {
  running_.push_back({{.scenario = turn.c.scenario,
                       .setting = turn.setting,
                       .number = turn.number,
                       .of = turn.of,
                       .run = turn.run},
                      now});
}

void SlowWatch::ended(const Turn& turn, Time now) {
  const auto found = std::find_if(running_.begin(), running_.end(), [&](const RunningJob& one) {
    return one.what.scenario == turn.c.scenario && one.what.setting == turn.setting &&
           one.what.number == turn.number && one.what.run == turn.run;
  });
  if (found == running_.end()) return;
  auto& usual = usual_[key(turn.c.scenario, turn.setting)];
  usual = std::max(usual, between(found->began, now));
  running_.erase(found);
}

std::vector<Slow> SlowWatch::running(Time now) const {
  std::vector<Slow> out;
  for (const auto& [what, began] : running_) {
    out.push_back(what);
    out.back().so_far = between(began, now);
  }
  return out;
}

std::vector<Slow> SlowWatch::slow(Time now) {
  std::vector<Slow> out;
  for (auto& [what, began] : running_) {
    const auto name = key(what.scenario, what.setting);
    const auto usual = usual_.find(name);
    what.so_far = between(began, now);
    what.usual = usual == usual_.end() ? std::optional<milliseconds>() : usual->second;
    if (what.so_far > patience_ + what.usual.value_or(milliseconds()) && named_.insert(name).second)
      out.push_back(what);
  }
  return out;
}

}  // namespace lockstep
