// Runs demonstrations in simulated worlds.
#pragma once

#include "demos/demo.h"

#include <string>

namespace lockstep {

const Demo& demo_named(const std::string& name);

struct DemoRun {
  Case c;
  History history;
  Verdict verdict;
};
DemoRun run_demo(const Demo& demo, const Demo::Values& values = {},
                 const std::string& mistake = "");

std::string finding_of(const std::string& name, const Demo::Values& values = {},
                       const std::string& mistake = "");

}  // namespace lockstep
