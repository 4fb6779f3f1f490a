// A failing case in text: its fields, and where it was shrunk how, and what is known of each field.
#pragma once

#include "harness/cases/result.h"

#include <string>
#include <vector>

namespace lockstep::reports {

// "  replay   ...", broken between parts where it would be too long.
std::vector<std::string> labelled(const std::string& label, const std::vector<std::string>& parts);

// "world 3 · length 5 · options.seed 1": the fields that differ from a default case, and the world.
std::string case_line(const Failure& failure);

// The lines of a story about the case. For a shrunk case a line for each field that matters, with
// the nearest values that pass; the fields that may hold anything; and the case as it was drawn.
std::vector<std::string> case_lines(const Failure& failure);

// "smallest case (6 steps down; 21 cases tried on sim in 0.1 s)".
std::string shrunk_text(const Shrunk& shrunk);

}  // namespace lockstep::reports
