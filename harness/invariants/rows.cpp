#include "harness/invariants/rows.h"

#include "harness/base/text.h"
#include "harness/verdict/trace.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <map>
#include <tuple>

namespace lockstep::recorded {

namespace {

constexpr size_t kTensorsShown = 8, kRanksShown = 6;

// The norms of one tensor, with the digests' bits where norms do not tell the ranks apart.
std::vector<std::string> texts_of(const std::vector<Digest>& by_rank) {
  for (const bool with_bits : {false, true}) {
    std::vector<std::string> texts;
    for (const auto& each : by_rank) {
      char text[64];
      if (each.is_missing())
        std::snprintf(text, sizeof(text), "none");
      else if (with_bits)
        std::snprintf(text, sizeof(text), "%.9g (bits %08x)", each.norm,
                      static_cast<unsigned>(each.bits));
      else
        std::snprintf(text, sizeof(text), "%.9g", each.norm);
      texts.emplace_back(text);
    }
    if (with_bits || !all_alike(texts)) return texts;
  }
  return {};
}

bool same(const Digest& a, const Digest& b) {
  return a.bits == b.bits && a.is_missing() == b.is_missing();
}

Table table_of_norms(const std::vector<int>& ranks) {
  Table table{.columns = {{"norm", Table::Holds::name}}, .rows = {}};
  for (const int rank : ranks)
    table.columns.push_back({"rank " + std::to_string(rank), Table::Holds::measure, rank});
  return table;
}

Table::Cell cell_of(const Digest& is, const std::string& text, const Digest& first) {
  const bool is_number = !is.is_missing() && std::isfinite(is.norm);
  return {text, is_number ? std::optional(is.norm) : std::nullopt, !same(is, first)};
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

// A tensor that several ranks hold, whole or the same part of it.
struct Shared {
  std::string name;
  std::vector<std::pair<int, Digest>> by_rank;
};

std::vector<Shared> shared_in(const Row& row) {
  if (!row.is_divided()) {
    const auto ranks = ranks_in(row);
    if (ranks.size() < 2) return {};
    std::vector<Shared> all;
    for (const auto& tensor : row.by_rank[static_cast<size_t>(ranks.front())]->list->tensors) {
      all.push_back({tensor.name, {}});
      for (const int rank : ranks)
        all.back().by_rank.emplace_back(
            rank, row.by_rank[static_cast<size_t>(rank)]->values[all.size() - 1]);
    }
    return all;
  }
  using Part = std::tuple<std::string, Shard, std::vector<int64_t>>;
  std::map<Part, std::vector<std::pair<int, Digest>>> parts;
  for (const int rank : ranks_in(row)) {
    const auto& is = *row.by_rank[static_cast<size_t>(rank)];
    const auto& shards = *row.shards[static_cast<size_t>(rank)];
    for (size_t tensor = 0; tensor < is.values.size(); ++tensor) {
      const auto& entry = is.list->tensors[tensor];
      if (std::find(entry.shape.begin(), entry.shape.end(), 0) != entry.shape.end())
        continue;  // the rank holds nothing of it
      const auto found = shards.find(entry.name);
      parts[{entry.name, found == shards.end() ? Shard() : found->second, entry.shape}]
          .emplace_back(rank, is.values[tensor]);
    }
  }
  std::vector<Shared> all;
  for (auto& [part, by_rank] : parts)
    if (by_rank.size() > 1) all.push_back({std::get<0>(part), std::move(by_rank)});
  return all;
}

// How many elements of a divided tensor no rank holds.
std::optional<Finding> not_covered(const Row& row, const std::string& what) {
  std::map<std::string, std::map<Shard, std::vector<int64_t>>> parts;
  for (const int rank : ranks_in(row)) {
    const auto& shards = *row.shards[static_cast<size_t>(rank)];
    for (const auto& entry : row.by_rank[static_cast<size_t>(rank)]->list->tensors)
      if (const auto found = shards.find(entry.name); found != shards.end()) {
        auto& extent = parts[entry.name][found->second];
        extent = std::max(extent, entry.shape);  // another rank may hold nothing of it
      }
  }
  for (const auto& [name, extents] : parts) {
    int64_t all = 1;
    for (const auto extent : extents.begin()->first.whole) all *= extent;
    if (const auto held = elements_of(extents); held != all)
      return Finding{"", "not_a_partition", place_of(row) + ", " + name,
                     what + ": the ranks' parts of " + name + " hold " + with_commas(held) +
                         " elements together, and the whole has " + with_commas(all)};
  }
  return {};
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
    const auto text = [&](const TensorList& list) {
      if (at >= list.tensors.size()) return "has " + counted(list.tensors.size(), "tensor");
      const auto& is = list.tensors[at];
      return "has " + is.name + ", " + shape_text(TensorValue{is.dtype, is.shape, {}});
    };
    return Finding{"", "other_shape", place_of(row),
                   what + ", tensor " + std::to_string(at) + ": rank " +
                       std::to_string(ranks.front()) + " " + text(first) + ", and rank " +
                       std::to_string(rank) + " " + text(other)};
  }
  return {};
}

}  // namespace

bool comes_before(const Moment& a, const Moment& b) {
  return std::pair(a.step, place_in_a_step(a)) < std::pair(b.step, place_in_a_step(b));
}

void take_earlier(Judgement& judgement, std::optional<Found> found) {
  if (found && judgement.at && comes_before(found->at, *judgement.at)) judgement.findings.clear();
  judgement.add(std::move(found));
}

bool has_comparison(const Row& row) {
  return row.is_divided() ? !shared_in(row).empty() : ranks_in(row).size() > 1;
}

bool Row::is_whole() const {
  return std::all_of(by_rank.begin(), by_rank.end(), [](const auto* each) { return each; });
}

std::vector<Row> rows_of(const RecordedRun& run, std::string_view role) {
  using Key = std::tuple<Moment, std::string, int>;
  std::map<Key, size_t> known;
  std::vector<Row> rows;
  for (size_t rank = 0; rank < run.ranks.size(); ++rank) {
    std::map<std::pair<Moment, std::string>, int> repeats;
    const auto shards = shards_of(run.ranks[rank]);
    for (const auto& record : run.ranks[rank].records) {
      const auto* digests = digests_in(record, role);
      if (!digests) continue;
      const auto& of = digests->list->of;
      const int repeat = repeats[{record.at, of}]++;
      const auto [found, is_new] = known.try_emplace({record.at, of, repeat}, rows.size());
      if (is_new)
        rows.push_back({.at = record.at,
                        .of = of,
                        .repeat = repeat,
                        .by_rank = std::vector<const Digests*>(run.ranks.size(), nullptr)});
      auto& row = rows[found->second];
      row.by_rank[rank] = digests;
      if (shards.empty()) continue;
      if (row.shards.empty()) row.shards.resize(run.ranks.size(), std::make_shared<Shards>());
      row.shards[rank] = shards_for(shards, *digests->list, rank);
    }
  }
  std::stable_sort(rows.begin(), rows.end(),
                   [](const Row& a, const Row& b) { return comes_before(a.at, b.at); });
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

bool differ(double a, double b) {
  constexpr double kPart = 1e-3;
  return std::abs(a - b) > kPart * std::max(std::abs(a), std::abs(b));
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

std::optional<Finding> difference_in(const Row& row, const std::string& what) {
  const auto ranks = ranks_in(row);
  if (ranks.size() < 2) return {};
  if (row.is_divided()) {
    if (row.is_whole() && is_model(row.of) && row.by_rank.front()->list->role == role::kParameters)
      if (auto hole = not_covered(row, what)) return hole;
  } else if (auto other = other_tensors(row, what, ranks)) {
    return other;
  }
  const auto all = shared_in(row);
  const auto shown = std::min(ranks.size(), kRanksShown);
  auto table = table_of_norms({ranks.begin(), ranks.begin() + static_cast<std::ptrdiff_t>(shown)});
  std::vector<std::string> first_texts;
  std::string first_name;
  size_t count = 0;
  for (const auto& [name, by_rank] : all) {
    std::vector<Digest> digests;
    for (const auto& [rank, digest] : by_rank) digests.push_back(digest);
    if (std::all_of(digests.begin(), digests.end(),
                    [&](const auto& each) { return same(each, digests.front()); }))
      continue;
    const auto texts = texts_of(digests);
    if (count++ == 0) {
      first_texts = texts;
      first_name = name;
    }
    if (count > kTensorsShown) continue;
    auto& line = table.rows.emplace_back();
    if (count == 1) line.mark = Table::Mark::first;
    line.cells.resize(shown + 1);
    line.cells.front() = {name};
    for (size_t at = 0; at < by_rank.size(); ++at)
      for (size_t rank = 0; rank < shown; ++rank)
        if (ranks[rank] == by_rank[at].first)
          line.cells[rank + 1] = cell_of(digests[at], texts[at], digests.front());
  }
  if (count == 0) return {};
  Details details{std::move(table)};
  if (count > kTensorsShown)
    details.push_back("and " + std::to_string(count - kTensorsShown) + " more");
  return Finding{"", agreement_pattern(first_texts), place_of(row) + ", " + first_name,
                 what + ": " + std::to_string(count) + " of " + counted(all.size(), "tensor") +
                     " differ, first " + first_name,
                 std::move(details)};
}

}  // namespace lockstep::recorded
