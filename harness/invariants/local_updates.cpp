#include "harness/invariants/local_updates.h"

#include <algorithm>
#include <set>

namespace lockstep::recorded {

namespace {

// The first and the last row of a list, by their place among all rows.
struct Span {
  size_t first = 0, last = 0;
  const TensorList* list = nullptr;
};

std::map<std::string, Span> spans_of(const std::vector<Row>& rows) {
  std::map<std::string, Span> spans;
  for (size_t number = 0; number < rows.size(); ++number)
    for (const auto* digests : rows[number].by_rank)
      if (digests)
        spans.try_emplace(rows[number].of, Span{number, number, digests->list.get()})
            .first->second.last = number;
  return spans;
}

// True if both optimizers have the same tensors, one after the other: a program may make its
// optimizer anew for each round of local updates.
bool replaces(const Span& one, const Span& other) {
  if (one.last >= other.first && other.last >= one.first) return false;
  return one.list->tensors == other.list->tensors;
}

}  // namespace

std::map<std::string, Moment> averaged_between_updates(const RecordedRun& run) {
  std::set<std::pair<std::string, int>> own;  // lists, and steps in which the gradients differ
  for (const auto& row : rows_of(run, "gradients"))
    if (row.is_whole() && difference_in(row, "")) own.emplace(row.of, row.at.step);
  const auto rows = rows_of(run, "parameters");
  const auto spans = spans_of(rows);
  const auto is_same_training = [&](const std::string& one, const std::string& other) {
    return one == other || (one.starts_with("optimizer ") && other.starts_with("optimizer ") &&
                            replaces(spans.at(one), spans.at(other)));
  };
  std::map<std::string, Moment> apart, averaged;
  std::set<std::string> equal_again;
  for (const auto& row : rows) {
    const bool differs = !row.is_whole() || difference_in(row, "").has_value();
    if (row.at.phase == "update" && differs && own.contains({row.of, row.at.step}))
      apart.try_emplace(row.of, row.at);
    if (row.at.phase == "update" || differs) continue;
    for (const auto& [of, at] : apart)
      if (is_same_training(of, row.of)) equal_again.insert(of);
  }
  for (const auto& [of, at] : apart)  // what the last round's left, nothing may read
    if (std::any_of(equal_again.begin(), equal_again.end(),
                    [&, of = of](const auto& is) { return is_same_training(of, is); }))
      averaged.emplace(of, at);
  return averaged;
}

}  // namespace lockstep::recorded
