// Judges whether numbers stay finite.
#include "harness/base/text.h"
#include "harness/invariants/rows.h"
#include "harness/verdict/trace.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

namespace lockstep::recorded {

namespace {

using Names = std::set<std::pair<std::string, std::string>>;  // a model's, and a tensor's

// The tensors that were infinite on every rank before anything was trained: a mask of attention,
// say, or the range that an observer begins with.
Names infinite_by_design(const std::vector<Row>& rows) {
  Names names;
  std::set<std::string> begun;
  for (const auto& row : rows) {
    if (!begun.insert(row.of).second || row.at.phase == phase::kUpdate || !row.is_whole()) continue;
    const auto& tensors = row.by_rank.front()->list->tensors;
    for (size_t tensor = 0; tensor < tensors.size(); ++tensor)
      if (std::all_of(row.by_rank.begin(), row.by_rank.end(), [&](const Digests* digests) {
            return tensor < digests->values.size() && std::isinf(digests->values[tensor].norm);
          }))
        names.emplace(row.of, tensors[tensor].name);
  }
  return names;
}

// Forgets those that a row shows finite: they may not become infinite again.
void forget_finite(Names& infinite, const Row& row) {
  for (const auto* digests : row.by_rank)
    for (size_t tensor = 0; digests && tensor < digests->values.size(); ++tensor)
      if (std::isfinite(digests->values[tensor].norm))
        infinite.erase({row.of, digests->list->tensors[tensor].name});
}

// The first tensor of a row that is not finite on some rank.
std::optional<Finding> not_finite(const Row& row, std::string_view role,
                                  const Names& infinite = {}) {
  const Digests* any = nullptr;
  for (const auto* digests : row.by_rank) any = any ? any : digests;
  for (size_t tensor = 0; tensor < any->values.size(); ++tensor) {
    const bool may_be_infinite = infinite.contains({row.of, any->list->tensors[tensor].name});
    const auto is_meant = [&](double norm) {
      return std::isfinite(norm) || (may_be_infinite && std::isinf(norm));
    };
    std::vector<int> ranks;
    for (size_t rank = 0; rank < row.by_rank.size(); ++rank)
      if (const auto* digests = row.by_rank[rank];
          digests && tensor < digests->values.size() && !is_meant(digests->values[tensor].norm))
        ranks.push_back(static_cast<int>(rank));
    if (ranks.empty()) continue;
    const bool is_one = ranks.size() == 1 && row.by_rank.size() > 1;
    return Finding{"", is_one ? "one_rank_not_finite" : "not_finite",
                   place_of(row) + ", " + any->list->tensors[tensor].name,
                   std::string(role) + " of " + row.of + ": " + any->list->tensors[tensor].name +
                       " holds NaN or infinity on " + ranks_text(ranks) + ", " + place_of(row)};
  }
  return {};
}

// A model may be made without values, which come later: what the next record replaces is not meant.
std::optional<std::pair<Row, Finding>> first_not_finite(const RecordedRun& run,
                                                        std::string_view role) {
  const auto rows = rows_of(run, role);
  auto infinite = role == role::kBuffers ? infinite_by_design(rows) : Names();
  const auto is_replaced = [&](const Row& row) {
    const auto next = std::find_if(&row + 1, rows.data() + rows.size(),
                                   [&](const Row& other) { return other.of == row.of; });
    return row.at.phase == phase::kConstruction && next != rows.data() + rows.size() &&
           !not_finite(*next, role, infinite);
  };
  for (const auto& row : rows) {
    if (auto finding = not_finite(row, role, infinite); finding && !is_replaced(row))
      return std::pair{row, std::move(*finding)};
    forget_finite(infinite, row);
  }
  return {};
}

// Where a forward begins with parameters that are not finite, and the update before it left finite
// ones: what wrote them.
Details written_by_the_program(const RecordedRun& run, const Row& first) {
  if (first.at.phase != phase::kForward) return {};
  const Row* before = nullptr;
  const auto rows = rows_of(run, role::kParameters);
  for (const auto& row : rows)
    if (row.of == first.of && comes_before(row.at, first.at)) before = &row;
  if (!before || before->at.phase != phase::kUpdate || not_finite(*before, role::kParameters))
    return {};
  return {Cause{"no update did it, since " + place_of(*before) +
                " left finite values: the program wrote it between the two"}};
}

// The ranks whose losses were first not finite, up to a step, where those of others were.
Details losses_not_finite(const RecordedRun& run, int up_to) {
  std::map<int, std::set<int>> ranks;  // by step
  for (const auto& rank : run.ranks)
    for (const auto& record : rank.records)
      if (const auto* fact = fact_in(record, fact::kBackward); fact && record.at.step <= up_to)
        if (const auto loss = fact->text("loss"); loss == "nan" || loss == "inf" || loss == "-inf")
          ranks[record.at.step].insert(rank.number);
  if (ranks.empty() || ranks.begin()->second.size() == run.ranks.size()) return {};
  const auto& [step, first] = *ranks.begin();
  return {Cause{"the loss of " + ranks_text({first.begin(), first.end()}) +
                " was NaN or infinite in step " + std::to_string(step) +
                ", and finite on the others, with which its gradients were averaged"}};
}

}  // namespace

Judgement values_stay_finite(const RecordedRun& run) {
  Judgement judgement;
  size_t count = 0;
  std::optional<std::pair<Row, Finding>> first;
  bool is_of_parameters = false;
  // Gradients may overflow where losses are scaled, as long as no update uses them.
  for (const auto role : {role::kParameters, role::kBuffers, role::kState}) {
    count += rows_of(run, role).size();
    auto found = first_not_finite(run, role);
    if (!found || (first && !comes_before(found->first.at, first->first.at))) continue;
    first = std::move(found);
    is_of_parameters = role == role::kParameters;
  }
  if (count == 0) return {.why_not = "no rank recorded a tensor"};
  judgement.compared = counted(count, "record");
  if (!first) return judgement;
  if (const auto gradients = first_not_finite(run, role::kGradients);
      gradients && comes_before(gradients->first.at, first->first.at))
    first->second.details.push_back("before that: " + gradients->second.diagnosis);
  first->second.details += losses_not_finite(run, first->first.at.step);
  if (is_of_parameters) first->second.details += written_by_the_program(run, first->first);
  judgement.add(Found{std::move(first->second), first->first.at});
  return judgement;
}

}  // namespace lockstep::recorded
