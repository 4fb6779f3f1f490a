#include "tests/demos/demo_run.h"

#include "demos/beliefs/beliefs.h"
#include "demos/catalogue.h"
#include "harness/worlds/about.h"
#include "harness/worlds/tiers.h"
#include "scenarios/subjects/subjects.h"

#include <algorithm>

namespace lockstep {

namespace {

// Made before the first test runs anything, since it forks.
Tier& lane() {
  static const auto lanes = [] {
    std::vector<Scenario> scenarios;
    for (const auto& demo : demonstrations()) scenarios.push_back(demo.scenario);
    for (const auto& belief : beliefs()) scenarios.push_back(belief.scenario);
    auto made = forked_lanes(SingleThreaded(), scenarios, built_in_subjects(), 1);
    use_one_intra_op_thread();
    return made;
  }();
  return *lanes.front();
}

}  // namespace

const Demo& demo_named(const std::string& name) {
  static const auto all = demonstrations();
  return *std::find_if(all.begin(), all.end(), [&](const Demo& demo) { return demo.name == name; });
}

DemoRun run_demo(const Demo& demo, const Demo::Values& values, const std::string& mistake) {
  auto& tier = lane();
  DemoRun out{.c = demo.case_of(values, mistake), .history = {}, .verdict = {}};
  out.history = tier.run(demo.scenario, out.c, {"lockstep", "sim", "memory"},
                         {.time_limit = std::chrono::seconds(110)});
  out.verdict = judge(demo.judged_with(mistake), out.c, out.history);
  return out;
}

std::string finding_of(const std::string& name, const Demo::Values& values,
                       const std::string& mistake) {
  const auto& demo = demo_named(name);
  const auto run = run_demo(demo, values, mistake);
  return demo.show(run.c, run.history).finding;
}

}  // namespace lockstep
