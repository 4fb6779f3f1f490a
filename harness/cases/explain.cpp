#include "harness/cases/explain.h"

#include "harness/cases/shown_fields.h"
#include "harness/cases/shrink.h"

#include <algorithm>

namespace lockstep {

namespace {

constexpr int kDraws = 40;
constexpr int kDrawnMost = 6;  // values of a list or a real number
constexpr size_t kListsMost = 24;
constexpr int64_t kFarthest = 1 << 20;  // of a number from the smallest case's

// Returns the values that the scenario draws for a field, in the order of the draws, each value
// once.
std::vector<Json> drawn_values(const std::vector<Case>& drawn, const Leaf& leaf) {
  std::vector<Json> values;
  for (const auto& c : drawn) {
    const auto value = c.value.value(pointer_to(leaf), Json());
    if (!value.is_null() && std::find(values.begin(), values.end(), value) == values.end())
      values.push_back(value);
  }
  return values;
}

// One field of the smallest case, replaced.
class Explained {
 public:
  Explained(const Scenario& scenario, const Case& smallest, const Leaf& leaf,
            std::vector<Json> drawn, Search& search)
      : scenario_(scenario),
        smallest_(smallest),
        leaf_(leaf),
        at_(pointer_to(leaf)),
        drawn_(std::move(drawn)),
        search_(search) {}

  std::optional<FieldNote> note() {
    FieldNote note{.path = leaf_.path, .value = smallest_.value.at(at_)};
    switch (leaf_.type) {
      case Leaf::Type::whole:
        note.passes = whole(note.value.get<int64_t>());
        break;
      case Leaf::Type::list:
        note.passes = with(first_of(lists(note.value)));
        break;
      default:
        note.passes = with(first_of(others(note.value)));
    }
    if (tried_ == 0 || search_.ended() != Search::End::none) return {};
    note.any = all_show_;
    if (!note.any && note.passes.empty()) return {};  // It fails otherwise, or is refused.
    return note;
  }

 private:
  // The case with another value there; none where the field or the scenario refuses it, or its
  // precondition is not met.
  std::optional<Case> with_other(const Json& value) const {
    Json changed = smallest_.value;
    changed[at_] = value;
    try {
      auto c = scenario_.parse(changed);
      if (scenario_.unmet_precondition(c).empty()) return c;
      return {};
    } catch (const FieldError&) {
      return {};
    }
  }

  // The first of `values` that passes.
  std::optional<Json> first_of(const std::vector<Json>& values) {
    std::vector<Case> cases;
    std::vector<Json> kept;
    for (const auto& value : values)
      if (auto c = with_other(value); c && *c != smallest_) {
        cases.push_back(std::move(*c));
        kept.push_back(value);
      }
    tried_ += cases.size();
    const auto found = search_.first(cases, Outcome::passes);
    for (const auto& c : cases)
      if (const auto outcome = search_.outcome(c)) all_show_ &= *outcome == Outcome::shows;
    return found ? std::optional(kept[*found]) : std::nullopt;
  }

  std::string with(const std::optional<Json>& value) const {
    if (!value) return "";
    return "with " + (value->is_string() ? value->get<std::string>()
                                         : without_defaults(scenario_, leaf_, *value).dump());
  }

  // The values in one direction: 1, 2, 4, ... away, as far as `limit` and at least one.
  static std::vector<Json> away(int64_t value, int64_t limit, int direction) {
    std::vector<Json> values;
    for (int64_t step = 1; step <= kFarthest; step *= 2) {
      int64_t next = 0;
      if (__builtin_add_overflow(value, direction * step, &next)) break;
      if (step > 1 && (direction > 0 ? next >= limit : next <= limit)) {
        if (limit != values.back()) values.emplace_back(limit);
        break;
      }
      values.emplace_back(next);
    }
    return values;
  }

  // The value nearest to `value` in that direction that passes.
  std::optional<int64_t> nearest(int64_t value, int64_t limit, int direction) {
    const auto found = first_of(away(value, limit, direction));
    if (!found) return {};
    int64_t passes = found->get<int64_t>();
    int64_t fails = value + (passes - value) / 2;  // the one before it
    while (std::abs(passes - fails) > 1) {
      const int64_t middle = fails + (passes - fails) / 2;
      (first_of({Json(middle)}) ? passes : fails) = middle;
    }
    return passes;
  }

  bool passes(int64_t value) { return first_of({Json(value)}).has_value(); }

  std::string whole(int64_t value) {
    int64_t most = value;
    for (const auto& drawn : drawn_) most = std::max(most, drawn.get<int64_t>());
    std::string text;
    if (const auto below = nearest(value, leaf_.allowed.least, -1)) {
      const bool more = *below - 1 >= leaf_.allowed.least && passes(*below - 1);
      text = (more ? "up to " : "with ") + std::to_string(*below);
    }
    if (const auto above = nearest(value, most, +1)) {
      const bool more = passes(*above + 1);
      text += (text.empty() ? "" : " and ") + std::string(more ? "from " : "with ") +
              std::to_string(*above) + (more ? " on" : "");
    }
    return text;
  }

  // Returns other values of fields whose values have no neighbours.
  std::vector<Json> others(const Json& value) const {
    std::vector<Json> values;
    if (leaf_.type == Leaf::Type::truth) return {Json(!value.get<bool>())};
    if (leaf_.type == Leaf::Type::seed)
      for (const uint64_t other : {0U, 1U, 2U, 3U, 1000U}) values.emplace_back(other);
    if (leaf_.type == Leaf::Type::word)
      values.insert(values.end(), leaf_.allowed.choices.begin(), leaf_.allowed.choices.end());
    if (leaf_.type != Leaf::Type::seed) add_drawn(values);
    return values;
  }

  void add_drawn(std::vector<Json>& values) const {
    for (size_t i = 0; i < std::min<size_t>(drawn_.size(), kDrawnMost); ++i)
      values.push_back(drawn_[i]);
  }

  // Lists like `value`, nearest first.
  std::vector<Json> lists(const Json& value) const {
    std::vector<Json> values;
    for (size_t i = 0; i < value.size() && values.size() < kListsMost; ++i) {
      if (!value[i].is_number_integer()) continue;
      for (const int change : {-1, 1}) {
        values.push_back(value);
        values.back()[i] = value[i].get<int64_t>() + change;
      }
    }
    for (size_t i = 0; i < value.size() && values.size() < kListsMost; ++i) {
      values.push_back(value);
      values.back().erase(i);
    }
    add_drawn(values);
    values.push_back(Json::array());
    return values;
  }

  const Scenario& scenario_;
  const Case& smallest_;
  const Leaf& leaf_;
  const Json::json_pointer at_;
  const std::vector<Json> drawn_;
  Search& search_;
  size_t tried_ = 0;
  bool all_show_ = true;
};

bool is_worth_explaining(const Leaf& leaf, const Case& smallest, const Json& defaults) {
  if (leaf.cost != Cost::injections && leaf.cost != Cost::schedule) return true;
  const auto at = pointer_to(leaf);
  return smallest.value.at(at) != defaults.at(at);
}

}  // namespace

std::vector<FieldNote> explain(const Scenario& scenario, const Case& smallest, Search& search) {
  const auto defaults = scenario.parse(Json::object()).value;
  std::vector<Case> drawn;
  for (int number = 0; number < kDraws; ++number)
    drawn.push_back(scenario.draw(static_cast<uint64_t>(number), 100 * number / kDraws));
  std::vector<FieldNote> notes;
  for (const auto& leaf : scenario.leaves) {
    if (!is_worth_explaining(leaf, smallest, defaults)) continue;
    Explained field(scenario, smallest, leaf, drawn_values(drawn, leaf), search);
    if (auto note = field.note()) notes.push_back(std::move(*note));
    if (search.ended() != Search::End::none) break;
  }
  return notes;
}

}  // namespace lockstep
