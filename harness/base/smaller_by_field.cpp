// The steps down from a value, by its description and its JSON.
#include "harness/base/fields.h"

#include <algorithm>

namespace lockstep::fields {

namespace {

using Kind = Type::Kind;

// A value that a step makes smaller, and where it stands.
struct Part {
  const Type& type;
  const Json& value;
  const Json& smallest;
  const Allowed& allowed;
  Cost cost;
};

using Steps = std::vector<Json>;

Steps smaller(const Part& is, std::optional<Cost> wanted);

// The value of a list's elements that no step makes smaller.
Json smallest_element(const Part& list) {
  const Type& element = *list.type.part;
  return element.kind == Kind::word ? Json(list.allowed.choices.front()) : element.smallest();
}

Steps smaller_numbers(const Json& value, const Json& smallest, bool is_seed) {
  constexpr uint64_t kFewValues = 8;  // next to the default are tried one by one
  const auto bits = [](const Json& number) {
    return number.is_number_unsigned() ? number.get<uint64_t>()
                                       : static_cast<uint64_t>(number.get<int64_t>());
  };
  const uint64_t from = bits(value), to = bits(smallest);
  const bool is_above = is_seed ? to < from : static_cast<int64_t>(to) < static_cast<int64_t>(from);
  const uint64_t distance = is_above ? from - to : to - from;
  const auto number = [&](uint64_t other) {
    return is_seed ? Json(other) : Json(static_cast<int64_t>(other));
  };
  Steps steps;
  if (distance > kFewValues && !is_seed)
    for (uint64_t left = distance; left > 0; left /= 2)
      steps.push_back(number(is_above ? from - left : from + left));
  else
    for (uint64_t i = 0; i < std::min(distance, kFewValues); ++i)
      steps.push_back(number(is_above ? to + i : to - i));
  return steps;
}

// The simplest word, then the choices before the value; none where choices have no order.
Steps smaller_words(const Json& value, const Json& smallest, const Allowed& allowed) {
  if (!allowed.is_ordered) return {};
  Steps words{smallest};
  for (const auto choice : allowed.choices) {
    if (value == choice) break;
    if (smallest != choice) words.emplace_back(choice);
  }
  return words;
}

// The list without any of its chunks, the longest first; then with one element smaller.
Steps smaller_lists(const Part& list) {
  Steps steps{list.smallest};
  const auto begin = list.value.begin(), end = list.value.end();
  for (size_t length = list.value.size(); length > 0; --length)
    for (size_t first = 0; first + length <= list.value.size(); ++first) {
      Json without = Json::array();
      const auto from = begin + static_cast<std::ptrdiff_t>(first);
      without.insert(without.end(), begin, from);
      without.insert(without.end(), from + static_cast<std::ptrdiff_t>(length), end);
      steps.push_back(std::move(without));
    }
  const auto smallest = smallest_element(list);
  for (size_t i = 0; i < list.value.size(); ++i)
    for (auto& element :
         smaller({*list.type.part, list.value[i], smallest, list.allowed, list.cost}, {})) {
      steps.push_back(list.value);
      steps.back()[i] = std::move(element);
    }
  return steps;
}

// The steps of fields whose cost is `wanted`, or of all.
Steps smaller(const Part& is, std::optional<Cost> wanted) {
  if (is.type.kind != Kind::object && (is.value == is.smallest || (wanted && *wanted != is.cost)))
    return {};
  switch (is.type.kind) {
    case Kind::object:
      break;
    case Kind::list:
      return smaller_lists(is);
    case Kind::whole:
    case Kind::seed:
      return smaller_numbers(is.value, is.smallest, is.type.kind == Kind::seed);
    case Kind::text:
    case Kind::word:
      return smaller_words(is.value, is.smallest, is.allowed);
    default:
      return {is.smallest};
  }
  Steps steps;
  for (const auto& member : is.type.members) {
    const Part inner{*member.type, is.value[member.name], is.smallest[member.name], member.allowed,
                     cost_within(is.cost, member.cost)};
    for (auto& smaller_part : smaller(inner, wanted)) {
      steps.push_back(is.value);
      steps.back()[member.name] = std::move(smaller_part);
    }
  }
  return steps;
}

// True of a value that `read` would accept.
bool fits(const Type& type, const Json& value, const Allowed& allowed) {
  switch (type.kind) {
    case Kind::object:
      return std::all_of(type.members.begin(), type.members.end(), [&](const Member& member) {
        return fits(*member.type, value[member.name], member.allowed);
      });
    case Kind::list:
      return value.size() <= allowed.longest &&
             std::all_of(value.begin(), value.end(),
                         [&](const Json& element) { return fits(*type.part, element, allowed); });
    case Kind::text:
    case Kind::word:
      return is_choice(value.get_ref<const std::string&>(), allowed);
    case Kind::whole:
      return value.get<int64_t>() >= allowed.least && value.get<int64_t>() <= allowed.most;
    default:
      return true;
  }
}

}  // namespace

std::vector<Json> smaller(const Type& type, const Json& value) {
  const Allowed any;
  const auto smallest = type.smallest();
  Steps steps;
  for (const auto cost :
       {Cost::world, Cost::shape, Cost::injections, Cost::schedule, Cost::numbers})
    for (auto& step : smaller({type, value, smallest, any, Cost::shape}, cost))
      if (fits(type, step, any)) steps.push_back(std::move(step));
  return steps;
}

}  // namespace lockstep::fields
