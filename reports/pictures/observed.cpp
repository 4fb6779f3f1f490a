#include "reports/pictures/observed.h"

#include "harness/base/dtype.h"
#include "harness/base/text.h"
#include "reports/pictures/aggregate.h"
#include "reports/style.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

namespace lockstep::reports {

namespace {

constexpr size_t kElementsShown = 3, kIndexMomentsMost = 6;
constexpr std::string_view kSamples = "samples";

// Where a rank recorded a name more than once at a moment the last one counts.
using Held = std::map<int, const TensorValue*>;
struct Recorded {
  Moment at;
  std::string name;
  Held by_rank;
};

std::vector<Recorded> recorded_in(const History& history) {
  std::vector<Recorded> all;
  std::map<std::pair<Moment, std::string>, size_t> places;
  for (int rank = 0; rank < history.size(); ++rank)
    for (const auto& event : history.ranks()[static_cast<size_t>(rank)].events) {
      const auto* observation = std::get_if<Observation>(&event.what);
      if (!observation) continue;
      const auto [place, is_new] = places.try_emplace({event.at, observation->name}, all.size());
      if (is_new) all.push_back({event.at, observation->name, {}});
      all[place->second].by_rank[rank] = &observation->value;
    }
  return all;
}

std::optional<std::vector<double>> numbers_of(const TensorValue& value) {
  try {
    return as_doubles(value);
  } catch (const std::invalid_argument&) {
    return {};
  }
}

// "0.5", "1 2 3", "1 2 3 ... of 8", "none" for a tensor without elements.
std::string value_text(const TensorValue& value) {
  const auto numbers = numbers_of(value);
  if (!numbers) return value.dtype;
  if (numbers->empty()) return "none";
  std::vector<std::string> texts;
  for (size_t i = 0; i < std::min(numbers->size(), kElementsShown); ++i)
    texts.push_back(number_text((*numbers)[i]));
  return joined(texts, " ") +
         (numbers->size() > kElementsShown ? " … of " + std::to_string(numbers->size()) : "");
}

std::string moment_text(const Moment& at) {
  return "step " + std::to_string(at.step) + (at.phase.empty() ? "" : ", " + at.phase);
}

struct Draws {
  Moment at;
  std::vector<std::vector<int64_t>> by_rank;
};

std::vector<Draws> draws_in(const History& history) {
  std::vector<Draws> all;
  for (const auto& one : recorded_in(history)) {
    if (one.name != kSamples) continue;
    Draws draws{one.at, std::vector<std::vector<int64_t>>(static_cast<size_t>(history.size()))};
    for (const auto& [rank, value] : one.by_rank)
      if (value->dtype == "int64" && value->shape.size() == 1)
        draws.by_rank[static_cast<size_t>(rank)] = as_integers(*value);
    all.push_back(std::move(draws));
  }
  return all;
}

size_t longest(const Draws& draws) {
  size_t most = 0;
  for (const auto& indices : draws.by_rank) most = std::max(most, indices.size());
  return most;
}

// Adds the columns of one moment, and returns what is to say about it.
std::string add_draws(const Draws& draws, Grid& grid) {
  std::set<int64_t> seen, repeated;
  int64_t count = 0;
  auto& group = grid.columns.emplace_back(Grid::Columns{moment_text(draws.at), {}});
  for (size_t column = 0; column < longest(draws); ++column) {
    group.names.push_back(std::to_string(column));
    for (size_t rank = 0; rank < draws.by_rank.size(); ++rank) {
      const auto& own = draws.by_rank[rank];
      if (column >= own.size()) {
        grid.rows[rank].cells.emplace_back();
        continue;
      }
      const bool is_new = seen.insert(own[column]).second;
      if (!is_new) repeated.insert(own[column]);
      ++count;
      grid.rows[rank].cells.push_back(
          {std::to_string(own[column]), is_new ? Mark::plain : Mark::repeated});
    }
  }
  return moment_text(draws.at) + ": " + counted(count, "draw") + " of " +
         counted(seen.size(), "sample") + ", " +
         (repeated.empty() ? "none" : std::to_string(repeated.size())) + " more than once";
}

}  // namespace

std::optional<Picture> index_picture(const History& history) {
  auto all = draws_in(history);
  std::erase_if(all, [](const Draws& draws) { return longest(draws) == 0; });
  if (all.empty()) return {};
  const size_t left = all.size() - std::min(all.size(), kIndexMomentsMost);
  all.resize(all.size() - left);
  Grid grid{.column_axis = "draw", .columns = {}, .rows = {}};
  for (int rank = 0; rank < history.size(); ++rank) grid.rows.push_back({rank_label(rank), {}});
  std::string caption;
  for (const auto& draws : all) {
    const auto text = add_draws(draws, grid);
    if (caption.empty()) caption = text;
  }
  if (left > 0) caption += "; " + counted(left, "moment") + " not drawn";
  return within_marks({.title = "Which rank drew which sample",
                       .caption = caption,
                       .body = std::move(grid),
                       .key = {{Mark::repeated, "drawn before at this moment"}}});
}

std::optional<Picture> held_picture(const History& history, const Moment& at, Differences how) {
  Grid grid{.column_axis = "record", .columns = {{"", {}}}, .rows = {}};
  for (int rank = 0; rank < history.size(); ++rank) grid.rows.push_back({rank_label(rank), {}});
  int64_t count = 0, alike = 0;
  for (const auto& [moment, name, by_rank] : recorded_in(history)) {
    if (moment != at) continue;
    grid.columns[0].names.push_back(name);
    const auto first = by_rank.find(0);
    bool is_alike = true;
    for (int rank = 0; rank < history.size(); ++rank) {
      auto& cells = grid.rows[static_cast<size_t>(rank)].cells;
      const auto found = by_rank.find(rank);
      if (found == by_rank.end()) {
        cells.push_back({"", Mark::missing});
        is_alike = false;
        continue;
      }
      const bool same = first != by_rank.end() && *found->second == *first->second;
      is_alike = is_alike && same;
      cells.push_back({value_text(*found->second),
                       same || how == Differences::left_alone ? Mark::plain : Mark::wrong});
    }
    ++count;
    alike += is_alike ? 1 : 0;
  }
  if (count == 0) return {};
  return within_marks({.title = "What every rank held at " + moment_text(at),
                       .caption = std::to_string(alike) + " of " + counted(count, "record") +
                                  " the same on every rank",
                       .body = std::move(grid),
                       .key = {{Mark::missing, "not recorded by this rank"},
                               {Mark::wrong, "not what rank 0 holds"}}});
}

std::optional<Moment> last_moment(const History& history) {
  const auto all = recorded_in(history);
  return all.empty() ? std::nullopt : std::optional(all.back().at);
}

std::optional<Picture> series_picture(const History& history, const std::string& name,
                                      size_t element) {
  constexpr size_t kMomentsLeast = 3;
  Lines lines{.column_axis = "moment", .value_axis = name, .columns = {}, .series = {}};
  for (int rank = 0; rank < history.size(); ++rank) lines.series.push_back({rank_label(rank), {}});
  std::set<double> values;
  for (const auto& [at, recorded, by_rank] : recorded_in(history)) {
    if (recorded != name) continue;
    lines.columns.push_back(std::to_string(at.step) + " " + at.phase);
    for (int rank = 0; rank < history.size(); ++rank) {
      const auto found = by_rank.find(rank);
      const auto numbers = found == by_rank.end() ? std::nullopt : numbers_of(*found->second);
      const bool is_there =
          numbers && element < numbers->size() && std::isfinite((*numbers)[element]);
      lines.series[static_cast<size_t>(rank)].values.push_back(is_there ? (*numbers)[element]
                                                                        : std::nan(""));
      if (is_there) values.insert((*numbers)[element]);
    }
  }
  if (lines.columns.size() < kMomentsLeast || values.empty()) return {};
  int64_t apart = 0;
  for (size_t column = 0; column < lines.columns.size(); ++column)
    apart += std::any_of(lines.series.begin(), lines.series.end(),
                         [&](const auto& one) {
                           const double a = one.values[column],
                                        b = lines.series.front().values[column];
                           return a != b && !(std::isnan(a) && std::isnan(b));
                         })
                 ? 1
                 : 0;
  const auto what = name + "[" + std::to_string(element) + "]";
  lines.value_axis = what;
  return within_marks({.title = what + " over the moments at which it was recorded",
                       .caption = apart == 0 ? "all ranks hold the same at each of " +
                                                   counted(lines.columns.size(), "moment")
                                             : "ranks differ at " + std::to_string(apart) + " of " +
                                                   counted(lines.columns.size(), "moment"),
                       .body = std::move(lines)});
}

std::string changing_record(const History& history) {
  std::map<std::string, std::set<std::string>> values;
  std::vector<std::string> names;
  for (const auto& [at, name, by_rank] : recorded_in(history))
    for (const auto& [rank, value] : by_rank) {
      const auto numbers = numbers_of(*value);
      if (traits_of(value->dtype).kind != NumberKind::floating || !numbers || numbers->empty())
        continue;
      if (!values.contains(name)) names.push_back(name);
      values[name].insert(number_text(numbers->front()));
    }
  std::string most;
  const auto weight = [&](const std::string& name) {
    return (name.find("running") == std::string::npos ? size_t{0} : size_t{1'000'000}) +
           values[name].size();
  };
  for (const auto& name : names)
    if (values[name].size() > 1 && (most.empty() || weight(name) > weight(most))) most = name;
  return most;
}

}  // namespace lockstep::reports
