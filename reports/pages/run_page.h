// A run as one HTML file: what was found, and first of all what was not checked. Every fact is the
// run's, every picture a history's. Content is all there without JavaScript, which adds filtering,
// switching between pictures and copying.
#pragma once

#include "harness/cases/result.h"
#include "reports/pictures/picture.h"

#include <map>
#include <string>
#include <vector>

namespace lockstep::reports {

// The records of the ranks in one case of the run.
struct SeenCase {
  Case c;
  Setting setting;  // where it ran
  int number = 1;   // among its scenario's cases
  bool holds = true;
  History history;
};

struct RunPage {
  Run run;
  std::vector<SeenCase> cases = {};
  std::map<std::string, std::vector<Picture>> of_scenario = {};  // for its failure, besides
  std::vector<Picture> of_run = {};                              // of no scenario
};

std::string run_page(const RunPage& page);

}  // namespace lockstep::reports
