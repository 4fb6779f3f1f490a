#include "harness/judge/rows.h"

#include "harness/core/columns.h"
#include "harness/core/text.h"
#include "harness/core/trace.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <tuple>

namespace lockstep::recorded {

namespace {

constexpr size_t kTensorsShown = 8, kRanksShown = 6;

std::string digest_text(const Digest& digest, bool with_norm) {
  if (digest.is_missing()) return "none";
  char text[40];
  if (with_norm)
    std::snprintf(text, sizeof(text), "%.9g", digest.norm);
  else
    std::snprintf(text, sizeof(text), "%016llx", static_cast<unsigned long long>(digest.bits));
  return text;
}

// Norms where they tell the ranks apart, else digests.
std::vector<std::string> texts_of(const std::vector<Digest>& by_rank) {
  for (const bool with_norm : {true, false}) {
    std::vector<std::string> texts;
    for (const auto& each : by_rank) texts.push_back(digest_text(each, with_norm));
    if (!with_norm || !all_alike(texts)) return texts;
  }
  return {};
}

bool same(const Digest& a, const Digest& b) {
  return a.bits == b.bits && a.is_missing() == b.is_missing();
}

// A rank may have a row that the ranks before it lack.
size_t place_in_a_step(const Moment& at) {
  static constexpr std::array<std::string_view, 6> kPhases{"construction", "joined",   "data",
                                                           "forward",      "backward", "update"};
  return static_cast<size_t>(std::find(kPhases.begin(), kPhases.end(), at.phase) - kPhases.begin());
}

std::vector<int> ranks_in(const Row& row) {
  std::vector<int> ranks;
  for (size_t rank = 0; rank < row.by_rank.size(); ++rank)
    if (row.by_rank[rank]) ranks.push_back(static_cast<int>(rank));
  return ranks;
}

std::optional<Finding> other_tensors(const Row& row, const std::string& what,
                                     const std::vector<int>& ranks) {
  const auto& first = *row.by_rank[static_cast<size_t>(ranks.front())]->list;
  for (const int rank : ranks) {
    const auto& other = *row.by_rank[static_cast<size_t>(rank)]->list;
    if (other == first) continue;
    const auto count = std::min(first.tensors.size(), other.tensors.size());
    size_t at = 0;
    while (at < count && first.tensors[at] == other.tensors[at]) ++at;
    const auto name = [&](const TensorList& list) {
      if (at >= list.tensors.size()) return std::string("no tensor more");
      const auto& is = list.tensors[at];
      return is.name + ", " + shape_text(TensorValue{is.dtype, is.shape, {}});
    };
    return Finding{"", "other_shape", place_of(row),
                   what + ": rank " + std::to_string(ranks.front()) + " has " +
                       std::to_string(first.tensors.size()) + " tensors and rank " +
                       std::to_string(rank) + " " + std::to_string(other.tensors.size()) +
                       "; number " + std::to_string(at) + " is " + name(first) + " there and " +
                       name(other) + " here"};
  }
  return {};
}

}  // namespace

bool Row::is_whole() const {
  return std::all_of(by_rank.begin(), by_rank.end(), [](const auto* each) { return each; });
}

std::vector<Row> rows_of(const RecordedRun& run, std::string_view role) {
  using Key = std::tuple<Moment, std::string, int>;
  std::map<Key, size_t> known;
  std::vector<Row> rows;
  for (size_t rank = 0; rank < run.ranks.size(); ++rank) {
    std::map<std::pair<Moment, std::string>, int> repeats;
    for (const auto& record : run.ranks[rank].records) {
      const auto* digests = std::get_if<Digests>(&record.what);
      if (!digests || digests->list->role != role) continue;
      const auto& of = digests->list->of;
      const int repeat = repeats[{record.at, of}]++;
      const auto [found, is_new] = known.try_emplace({record.at, of, repeat}, rows.size());
      if (is_new)
        rows.push_back({.at = record.at,
                        .of = of,
                        .repeat = repeat,
                        .by_rank = std::vector<const Digests*>(run.ranks.size(), nullptr)});
      rows[found->second].by_rank[rank] = digests;
    }
  }
  std::stable_sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) {
    return std::pair(a.at.step, place_in_a_step(a.at)) <
           std::pair(b.at.step, place_in_a_step(b.at));
  });
  return rows;
}

std::string place_of(const Row& row) {
  return "step " + std::to_string(row.at.step) + ", " + row.at.phase +
         (row.repeat == 0 ? "" : " " + std::to_string(row.repeat + 1));
}

std::string values_text(const std::vector<std::string>& by_rank) {
  std::vector<std::pair<std::string, std::vector<int>>> groups;
  for (size_t rank = 0; rank < by_rank.size(); ++rank) {
    auto found = std::find_if(groups.begin(), groups.end(),
                              [&](const auto& group) { return group.first == by_rank[rank]; });
    if (found == groups.end()) found = groups.insert(found, {by_rank[rank], {}});
    found->second.push_back(static_cast<int>(rank));
  }
  std::vector<std::string> parts;
  for (const auto& [text, ranks] : groups)
    parts.push_back(ranks_text(ranks) + (ranks.size() == 1 ? " has " : " have ") + text);
  return joined(parts, ", ");
}

bool all_alike(const std::vector<std::string>& texts) {
  return std::all_of(texts.begin(), texts.end(),
                     [&](const auto& text) { return text == texts.front(); });
}

std::string agreement_pattern(const std::vector<std::string>& by_rank) {
  std::map<std::string, int> counts;
  for (const auto& text : by_rank) ++counts[text];
  if (counts.size() == by_rank.size()) return "no_two_ranks_agree";
  const bool stands_alone = counts.size() == 2 && by_rank.size() > 2 &&
                            std::any_of(counts.begin(), counts.end(),
                                        [](const auto& count) { return count.second == 1; });
  return stands_alone ? "one_rank_stands_alone" : "ranks_in_groups";
}

std::vector<std::pair<std::string, std::string>> owned_in(const Fact& optimizer) {
  std::vector<std::pair<std::string, std::string>> owned;
  const auto found = optimizer.values.find("owned");
  if (found == optimizer.values.end() || !found->is_array()) return owned;
  for (const auto& pair : *found)
    if (pair.is_array() && pair.size() == 2 && pair[0].is_string() && pair[1].is_string())
      owned.emplace_back(one_line(pair[0].get<std::string>()),
                         one_line(pair[1].get<std::string>()));
  return owned;
}

std::string counted(size_t number, const std::string& one) {
  return with_commas(static_cast<int64_t>(number)) + " " + one + (number == 1 ? "" : "s");
}

std::optional<Finding> difference_in(const Row& row, const std::string& what) {
  const auto ranks = ranks_in(row);
  if (ranks.size() < 2) return {};
  if (auto other = other_tensors(row, what, ranks)) return other;
  const auto& list = *row.by_rank[static_cast<size_t>(ranks.front())]->list;
  std::vector<std::vector<std::string>> table{{"norm"}};
  for (size_t shown = 0; shown < std::min(ranks.size(), kRanksShown); ++shown)
    table.front().push_back("rank " + std::to_string(ranks[shown]));
  table.front().emplace_back();
  std::vector<std::string> first_texts;
  std::string first_name;
  size_t count = 0;
  for (size_t tensor = 0; tensor < list.tensors.size(); ++tensor) {
    std::vector<Digest> by_rank;
    for (const int rank : ranks)
      by_rank.push_back(row.by_rank[static_cast<size_t>(rank)]->values[tensor]);
    if (std::all_of(by_rank.begin(), by_rank.end(),
                    [&](const auto& each) { return same(each, by_rank.front()); }))
      continue;
    auto texts = texts_of(by_rank);
    if (count++ == 0) {
      first_texts = texts;
      first_name = list.tensors[tensor].name;
    }
    if (count > kTensorsShown) continue;
    std::vector<std::string> line{list.tensors[tensor].name};
    for (size_t shown = 0; shown + 1 < table.front().size() && shown < texts.size(); ++shown)
      line.push_back(texts[shown]);
    if (line.size() + 1 == table.front().size()) line.push_back(count == 1 ? "\u25c4" : "");
    table.push_back(std::move(line));
  }
  if (count == 0) return {};
  std::string text = what + ": " + std::to_string(count) + " of " +
                     counted(list.tensors.size(), "tensor") + " differ, first " + first_name;
  for (const auto& line : in_columns(table)) text += "\n" + line;
  if (count > kTensorsShown) text += "\nand " + std::to_string(count - kTensorsShown) + " more";
  return Finding{"", agreement_pattern(first_texts), place_of(row) + ", " + first_name,
                 std::move(text)};
}

}  // namespace lockstep::recorded
