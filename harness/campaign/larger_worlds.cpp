#include "harness/campaign/larger_worlds.h"

#include <algorithm>
#include <string_view>

namespace lockstep {

bool may_fit_one_size_by_chance(const Finding& finding) {
  constexpr std::string_view kOfTheWorldSize[] = {
      "sum_not_average", "divided_twice", "factor_world_size", "factor_one_over_world_size"};
  return std::count(std::begin(kOfTheWorldSize), std::end(kOfTheWorldSize), finding.pattern) > 0;
}

bool contradict(Finding& finding, const Verdict& there, int ranks) {
  if (there.findings.empty()) return false;
  const auto& other = there.findings.front();
  if (other.rule != finding.rule || other.pattern == finding.pattern) return false;
  const bool is_of_one_row = finding.where.record == other.where.record;
  finding.diagnosis += "; with " + std::to_string(ranks) +
                       " ranks: " + (is_of_one_row ? without_record(other) : other.diagnosis);
  finding.pattern.clear();
  finding.cause.clear();
  finding.specificity = Specificity::which_ranks;
  return true;
}

}  // namespace lockstep
