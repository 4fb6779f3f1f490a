#include "harness/cases/option_pairs.h"

#include <algorithm>

namespace lockstep {

namespace {

bool is_option(const Leaf& leaf) {
  return !leaf.path.starts_with("world.") &&
         (leaf.type == Leaf::Type::truth || leaf.type == Leaf::Type::word ||
          leaf.type == Leaf::Type::list);
}

std::string value_at(const Json::json_pointer& at, const Case& c) {
  const auto& value = c.value.at(at);
  if (!value.is_array()) return value.dump();
  return value.empty() ? "[]" : "[...]";
}

}  // namespace

OptionPairs::OptionPairs(const Scenario& scenario) {
  const auto smallest = scenario.smallest();
  for (const auto& leaf : scenario.leaves) {
    if (!is_option(leaf)) continue;
    auto path = "/" + leaf.path;
    std::replace(path.begin(), path.end(), '.', '/');
    const Json::json_pointer at(path);
    options_.push_back({at, value_at(at, smallest), {}});
  }
}

OptionPairs::Values OptionPairs::values_of(const Case& c) {
  Values values;
  for (size_t i = 0; i < options_.size(); ++i) {
    auto& option = options_[i];
    const auto value = value_at(option.at, c);
    const auto number = static_cast<uint32_t>(option.seen.size());
    values.numbers.push_back(option.seen.try_emplace(value, number).first->second);
    if (i < 64 && value != option.smallest) values.on |= uint64_t{1} << i;
  }
  return values;
}

template <class Each>
void OptionPairs::each_pair(const Values& values, const Each& each) const {
  const auto key = [&](size_t option) { return uint64_t{option} << 32 | values.numbers[option]; };
  for (size_t a = 0; a < options_.size(); ++a)
    for (size_t b = a + 1; b < options_.size(); ++b) each(Pair(key(a), key(b)));
}

int64_t OptionPairs::gain(const Values& values) const {
  int64_t gain = 0;
  each_pair(values, [&](const Pair& pair) { gain += !covered_.contains(pair); });
  return gain;
}

void OptionPairs::cover(const Values& values) {
  each_pair(values, [&](const Pair& pair) { covered_.insert(pair); });
}

int64_t OptionPairs::all() const {
  int64_t all = 0;
  for (size_t a = 0; a < options_.size(); ++a)
    for (size_t b = a + 1; b < options_.size(); ++b)
      all += static_cast<int64_t>(options_[a].seen.size() * options_[b].seen.size());
  return all;
}

}  // namespace lockstep
