#include "harness/base/number_set.h"

#include "harness/base/text.h"

#include <algorithm>

namespace lockstep {

namespace {

using Range = NumberSet::Range;

bool begins_earlier(const Range& a, const Range& b) {
  return a.first < b.first;
}

// As NumberSet writes it: not "07", nor "-0".
std::optional<int64_t> number_of(std::string_view text) {
  const auto number = parsed_int(text);
  return number && std::to_string(*number) == text ? number : std::nullopt;
}

// "7" or "9-30".
std::optional<Range> range_of(std::string_view text, int64_t least, int64_t most) {
  const auto dash = text.find('-');
  const auto first = number_of(text.substr(0, dash));
  const auto last = dash == std::string_view::npos ? first : number_of(text.substr(dash + 1));
  if (!first || !last || *first < least || *last > most) return {};
  if (dash != std::string_view::npos && *first >= *last) return {};
  return Range{static_cast<int>(*first), static_cast<int>(*last)};
}

}  // namespace

NumberSet::NumberSet(const std::vector<int>& ascending) {
  for (const int number : ascending) append({number, number});
}

int64_t NumberSet::count() const {
  int64_t count = 0;
  for (const auto& range : ranges_) count += int64_t{range.last} - range.first + 1;
  return count;
}

void NumberSet::append(Range range) {
  if (!ranges_.empty() && range.first <= int64_t{ranges_.back().last} + 1)
    ranges_.back().last = std::max(ranges_.back().last, range.last);
  else
    ranges_.push_back(range);
}

void NumberSet::add(const NumberSet& more) {
  if (more.empty()) return;
  if (empty() || more.first() > last()) {  // As cases run: one after another.
    for (const auto& range : more.ranges_) append(range);
    return;
  }
  std::vector<Range> all;
  std::merge(ranges_.begin(), ranges_.end(), more.ranges_.begin(), more.ranges_.end(),
             std::back_inserter(all), begins_earlier);
  ranges_.clear();
  for (const auto& range : all) append(range);
}

void NumberSet::cut_after(int number) {
  while (!empty() && ranges_.back().first > number) ranges_.pop_back();
  if (!empty()) ranges_.back().last = std::min(ranges_.back().last, number);
}

std::string NumberSet::text() const {
  std::vector<std::string> parts;
  for (const auto& [first, last] : ranges_)
    parts.push_back(std::to_string(first) + (first == last ? "" : "-" + std::to_string(last)));
  return joined(parts, ",");
}

std::optional<NumberSet> NumberSet::parsed(std::string_view text, int64_t most) {
  NumberSet numbers;
  for (;;) {
    const auto comma = text.find(',');
    const int64_t least = numbers.empty() ? 1 : int64_t{numbers.last()} + 1;
    const auto range = range_of(text.substr(0, comma), least, most);
    if (!range) return {};
    numbers.append(*range);
    if (comma == std::string_view::npos) return numbers;
    text.remove_prefix(comma + 1);
  }
}

bool overlap(const std::vector<NumberSet>& sets) {
  std::vector<Range> all;
  for (const auto& set : sets) all.insert(all.end(), set.ranges().begin(), set.ranges().end());
  std::sort(all.begin(), all.end(), begins_earlier);
  return std::adjacent_find(all.begin(), all.end(), [](const Range& a, const Range& b) {
           return b.first <= a.last;
         }) != all.end();
}

}  // namespace lockstep
