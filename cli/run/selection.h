// Selects the scenarios of a command.
#pragma once

#include "harness/cases/scenario.h"

namespace lockstep::cli {

struct Selection {
  std::vector<std::string> patterns;  // globs, or the beginnings of names; empty: all
  std::vector<std::string> excluded;  // scenarios that these match are left out
  std::vector<std::string> tags;      // expressions of tags: if not empty, one of these holds ...
  std::vector<std::string> not_tags;  // ... and none of these
};

// In the order of `all`, canaries left out. Throws NothingSelected for a pattern or a tag that
// matches no scenario, with near names, and where no scenario is left; UsageError for what is no
// expression of tags.
std::vector<Scenario> selected(const std::vector<Scenario>& all, const Selection& selection);

bool has_tag(const Scenario& scenario, const std::string& tag);

// The scenario of that name, or the only one whose name begins so. Throws NothingSelected.
const Scenario& scenario_named(const std::vector<Scenario>& all, const std::string& name);

}  // namespace lockstep::cli
