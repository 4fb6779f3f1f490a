// The subjects and scenarios that a program can run, the same in all processes of a campaign. No
// torch.
#pragma once

#include "harness/cases/scenario.h"

#include <map>
#include <string>
#include <vector>

namespace lockstep {

// Lists what a program can run, by name, for comparison: its subjects, and its scenarios with a
// hash of each one's smallest case.
struct RunnableProgram {
  std::map<std::string, std::string> subjects = {}, scenarios = {};
  bool operator==(const RunnableProgram&) const = default;
  static constexpr auto fields() {
    return std::tuple{
        field("subjects", &RunnableProgram::subjects, at_most(1u << 16, line_up_to(256))),
        field("scenarios", &RunnableProgram::scenarios, at_most(1u << 16, line_up_to(256)))};
  }
};
RunnableProgram program_of(const std::vector<Scenario>& scenarios,
                           const std::vector<std::string>& subjects);

// The sentence about the first difference, or "" where there is none.
std::string difference(const RunnableProgram& program_of_rank_zero, const RunnableProgram& program,
                       int rank);

}  // namespace lockstep
