#include "harness/worlds/launched/runnable_program.h"

namespace lockstep {

namespace {

using Names = std::map<std::string, std::string>;

// The first name that one has and the other lacks.
std::string missing_name(const Names& all, const Names& in) {
  for (const auto& [name, value] : all)
    if (!in.contains(name)) return name;
  return "";
}

std::string difference_in(const std::string& what, const Names& ours, const Names& theirs,
                          const std::string& who) {
  if (const auto name = missing_name(ours, theirs); !name.empty())
    return who + " has no " + what + " '" + name + "', which rank 0 has";
  if (const auto name = missing_name(theirs, ours); !name.empty())
    return who + " has the " + what + " '" + name + "', which rank 0 has not";
  for (const auto& [name, value] : ours)
    if (value != theirs.at(name))
      return who + " has a " + what + " '" + name + "' with other cases than rank 0's";
  return "";
}

}  // namespace

RunnableProgram program_of(const std::vector<Scenario>& scenarios,
                           const std::vector<std::string>& subjects) {
  RunnableProgram program;
  for (const auto& name : subjects) program.subjects[name] = "";
  for (const auto& scenario : scenarios)
    program.scenarios[scenario.name] = hash_of(scenario.smallest());
  return program;
}

std::string difference(const RunnableProgram& ours, const RunnableProgram& theirs, int rank) {
  const auto who = "rank " + std::to_string(rank);
  const auto subjects = difference_in("subject", ours.subjects, theirs.subjects, who);
  const auto found = !subjects.empty()
                         ? subjects
                         : difference_in("scenario", ours.scenarios, theirs.scenarios, who);
  return found.empty() ? "" : "the processes are not of one program: " + found;
}

}  // namespace lockstep
