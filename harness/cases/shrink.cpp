#include "harness/cases/shrink.h"

#include "harness/base/text.h"

#include <algorithm>

namespace lockstep {

Json::json_pointer pointer_to(const Leaf& leaf) {
  std::string text;
  for (const auto& name : split(leaf.path, '.')) text += "/" + name;
  return Json::json_pointer(text);
}

std::vector<Case> within_precondition(const Scenario& scenario, std::vector<Case> cases) {
  std::erase_if(cases, [&](const Case& c) { return !scenario.unmet_precondition(c).empty(); });
  return cases;
}

std::vector<Case> with_more(const Scenario& scenario, const Case& c, std::string_view path,
                            Leaf::Type type, uint64_t most) {
  std::vector<Case> all;
  for (const auto& leaf : scenario.leaves)
    if (leaf.path == path && leaf.type == type)
      for (uint64_t more = 1; more <= most; ++more) {
        all.push_back(c);
        auto& number = all.back().value[pointer_to(leaf)];
        number = number.get<uint64_t>() + more;
      }
  return within_precondition(scenario, std::move(all));
}

namespace {

constexpr int kRanksMost = 16;  // of a world from which each rank in turn may leave

// `list`, which is read cyclically by `size` ranks, without the element of one of them.
Json without_rank(const Json& list, int rank, int size) {
  Json out = Json::array();
  for (int other = 0; other < size; ++other)
    if (other != rank) out.push_back(list[static_cast<size_t>(other) % list.size()]);
  return out;
}

bool holds_numbers(const Json& list) {
  return !list.empty() && list[0].is_number_integer();
}

// The case in a world with a rank less, once for each list of numbers and each rank but the last.
std::vector<Case> without_one_rank(const Scenario& scenario, const Case& c) {
  std::vector<Case> out;
  const int size = world_size(c);
  if (size < 2 || size > kRanksMost) return out;
  for (const auto& leaf : scenario.leaves) {
    const auto at = pointer_to(leaf);
    if (leaf.type != Leaf::Type::list || !holds_numbers(c.value.at(at))) continue;
    for (int rank = 0; rank < size - 1; ++rank) {
      auto value = c.value;
      value["world"]["size"] = size - 1;
      value[at] = without_rank(c.value.at(at), rank, size);
      try {
        out.push_back(scenario.parse(value));
      } catch (const FieldError&) {
        continue;  // The list of this scenario may not be as long.
      }
    }
  }
  return out;
}

// Every step down: first smaller worlds, then those without one rank, then the rest.
std::vector<Case> steps_down(const Scenario& scenario, const Case& c) {
  auto steps = scenario.smaller(c);
  const auto rest = std::find_if(steps.begin(), steps.end(), [&](const Case& step) {
    return world_size(step) == world_size(c);
  });
  const auto without = without_one_rank(scenario, c);
  steps.insert(rest, without.begin(), without.end());
  return steps;
}

// The place where the search continues among the steps of `after`, which was step `index` of
// `before`: at the first one that changes the same field, so that a number keeps moving in large
// steps.
size_t place_behind(const Scenario& scenario, const Case& before, const Case& after,
                    const std::vector<Case>& steps, size_t index) {
  for (const auto& leaf : scenario.leaves) {
    const auto at = pointer_to(leaf);
    const auto& value = after.value.at(at);
    if (value == before.value.at(at)) continue;
    const auto same = std::find_if(steps.begin(), steps.end(),
                                   [&](const Case& step) { return step.value.at(at) != value; });
    return same != steps.end() ? static_cast<size_t>(same - steps.begin()) : index;
  }
  return index;
}

std::optional<Case> two_steps_down(const Scenario& scenario, const std::vector<Case>& one_step,
                                   Search& search) {
  for (const auto& c : one_step) {
    const auto candidates = within_precondition(scenario, steps_down(scenario, c));
    if (const auto found = search.first(candidates, Outcome::shows)) return candidates[*found];
    if (search.ended() != Search::End::none) return {};
  }
  return {};
}

}  // namespace

Descent shrink(const Scenario& scenario, const Case& start, Search& search,
               const std::function<void(const Case&, int steps)>& on_step) {
  Descent descent{.path = {start}};
  const auto take = [&](Case c) {
    descent.path.push_back(std::move(c));
    if (on_step) on_step(descent.smallest(), static_cast<int>(descent.path.size()) - 1);
  };
  auto all = steps_down(scenario, start);
  auto steps = within_precondition(scenario, all);
  for (size_t begin = 0; !all.empty();) {
    const auto next = search.first(steps, Outcome::shows, begin);
    if (!next && search.ended() != Search::End::none) return descent;
    auto down = next ? std::optional(steps[*next]) : two_steps_down(scenario, all, search);
    if (!down) break;
    all = steps_down(scenario, *down);
    steps = within_precondition(scenario, all);
    begin = next ? place_behind(scenario, descent.smallest(), *down, steps, *next) : 0;
    take(std::move(*down));
  }
  descent.is_smallest = true;
  return descent;
}

}  // namespace lockstep
