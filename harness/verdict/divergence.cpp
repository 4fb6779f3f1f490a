#include "harness/verdict/divergence.h"

#include "harness/base/text.h"
#include "harness/verdict/element.h"
#include "harness/verdict/relation.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace lockstep {

namespace {

constexpr size_t kRowsMost = 8;
constexpr size_t kRankColumnsMost = 6;

const TensorValue* bound_of(const Difference& is, size_t rank) {
  return is.bounds.empty() ? nullptr : &is.bounds[rank];
}

// A row of the table, before its columns are known.
struct Line {
  std::string name;
  Element reference;
  std::vector<Element> by_rank;
  Element distance = {}, bound = {}, ulps = {}, ratio = {};
  std::vector<size_t> wrong = {};  // ranks
  bool agree = true;
  int rank = -1;  // whose line it is
};

// Where a rank's dtype or shape differs, these replace the values.
Line shapes_of(const Difference& is) {
  Line line{.name = is.row.name, .reference = {shape_or_none(is.expected.front())}, .by_rank = {}};
  for (const auto& value : is.row.by_rank) line.by_rank.push_back({shape_or_none(value)});
  return line;
}

Line values_of(const Difference& is, size_t at) {
  const auto& right = is.expected.front();
  std::vector<const TensorValue*> all{&right};
  for (const auto& value : is.row.by_rank) all.push_back(&value);
  const int digits = digits_for(all, at);
  const auto wanted = element(right, at, digits);
  Line line{.name = is.row.name + (wanted.value ? index_text(index_of(right, at)) : ""),
            .reference = wanted,
            .by_rank = {}};
  size_t furthest = 0;
  for (size_t rank = 0; rank < is.row.by_rank.size(); ++rank) {
    line.by_rank.push_back(element(is.row.by_rank[rank], at, digits));
    if (distance(line.by_rank[rank], wanted) > distance(line.by_rank[furthest], wanted))
      furthest = rank;
  }
  const auto& seen = line.by_rank[furthest];
  if (wanted.value) line.distance = {number(distance(seen, wanted), 3), distance(seen, wanted)};
  if (const auto* bound = bound_of(is, furthest)) line.bound = element(*bound, at, 3);
  line.ulps = ulps_between(seen, wanted, right);
  line.ratio = ratio(seen, wanted);
  return line;
}

Line line_of(const Difference& is, size_t at) {
  const bool comparable =
      std::all_of(is.row.by_rank.begin(), is.row.by_rank.end(),
                  [&](const TensorValue& value) { return same_shape(value, is.expected.front()); });
  Line line = comparable ? values_of(is, at) : shapes_of(is);
  line.wrong = wrong_ranks(is);
  line.agree = all_alike(is.row.by_rank);
  return line;
}

// The row of one rank, beside its own expected value.
Line line_of_rank(const Difference& is, size_t rank, size_t at) {
  Difference one{{is.row.at, "", {is.row.by_rank[rank]}}, {is.expected[rank]}, {}};
  if (!is.bounds.empty()) one.bounds = {is.bounds[rank]};
  auto line = line_of(one, at);
  line.name = "rank " + std::to_string(rank);
  line.rank = static_cast<int>(rank);
  return line;
}

// At most `most` of 0 .. count - 1, in order: those of `preferred` before any other.
std::vector<size_t> chosen(size_t count, size_t most, const std::vector<size_t>& preferred) {
  std::vector<size_t> out;
  const auto take = [&](size_t one) {
    if (out.size() < most && std::find(out.begin(), out.end(), one) == out.end())
      out.push_back(one);
  };
  for (const auto one : preferred) take(one);
  for (size_t one = 0; one < count; ++one) take(one);
  std::sort(out.begin(), out.end());
  return out;
}

// The words for things that were left out: "right" and "wrong" where that is known.
struct Words {
  const char *what, *good, *bad;
};
constexpr Words kRows{"row", "right", "wrong"}, kRanks{"rank", "right", "wrong"};
constexpr Words kRowsAlike{"row", "alike on every rank", "not alike"};
constexpr Words kRanksAlike{"rank", "like rank 0", "unlike it"};

// "and 12 more rows, all right"; nothing where nothing was left out.
void count_left_out(Details& details, const Words& words, size_t left, size_t wrong) {
  if (left == 0) return;
  const auto number = [](size_t count) { return with_commas(static_cast<int64_t>(count)); };
  const std::string how = wrong == 0      ? (left == 1 ? "" : "all ") + std::string(words.good)
                          : wrong == left ? (left == 1 ? "" : "all ") + std::string(words.bad)
                                          : number(wrong) + " of them " + words.bad;
  details.push_back("and " + number(left) + " more " + words.what + (left == 1 ? "" : "s") + ", " +
                    how);
}

// All rows and ranks that could be shown.
struct Whole {
  std::vector<Line> lines = {};
  size_t first = 0;
  bool bounds = false, reference = true;
  Words rows = kRows, ranks = kRanks;

  size_t world() const { return lines.front().by_rank.size(); }
};

std::vector<size_t> wrong_lines(const Whole& whole) {
  std::vector<size_t> out{whole.first};
  for (size_t at = 0; at < whole.lines.size(); ++at)
    if (!whole.lines[at].wrong.empty()) out.push_back(at);
  return out;
}

std::vector<size_t> ranks_to_show(const Whole& whole) {
  std::vector<size_t> preferred;
  for (const auto at : wrong_lines(whole))
    preferred.insert(preferred.end(), whole.lines[at].wrong.begin(), whole.lines[at].wrong.end());
  return chosen(whole.world(), kRankColumnsMost, preferred);
}

bool is_wrong(const Line& line, size_t rank) {
  return std::find(line.wrong.begin(), line.wrong.end(), rank) != line.wrong.end();
}

Table::Cell cell(const Element& is, bool is_wrong = false) {
  const bool is_finite = is.value && std::isfinite(*is.value);
  return {is.text, is_finite ? is.value : std::nullopt, is_wrong};
}

Table::Row row_of(const Whole& whole, size_t at, const std::vector<size_t>& ranks, bool ulps) {
  using Mark = Table::Mark;
  const Line& line = whole.lines[at];
  Table::Row row{.cells = {{line.name}},
                 .mark = at == whole.first    ? Mark::first
                         : line.wrong.empty() ? Mark::none
                                              : Mark::wrong,
                 .rank = line.rank};
  if (whole.reference) row.cells.push_back(cell(line.reference));
  for (const auto rank : ranks) row.cells.push_back(cell(line.by_rank[rank], is_wrong(line, rank)));
  if (whole.bounds) row.cells.insert(row.cells.end(), {cell(line.distance), cell(line.bound)});
  if (ulps) row.cells.push_back(cell(line.ulps));
  if (whole.reference) row.cells.push_back(cell(line.ratio));
  if (whole.world() > 1) row.cells.push_back({line.agree ? "yes" : "no"});
  return row;
}

std::vector<Table::Column> columns_of(const Whole& whole, const std::vector<size_t>& ranks,
                                      bool ulps) {
  using Holds = Table::Holds;
  const bool is_by_rank = whole.lines.front().rank >= 0;
  std::vector<Table::Column> out{{is_by_rank ? "rank" : "name", Holds::name}};
  if (whole.reference) out.push_back({"reference", Holds::reference});
  for (const auto rank : ranks)
    out.push_back(is_by_rank ? Table::Column{"value", Holds::value}
                             : Table::Column{"rank " + std::to_string(rank), Holds::value,
                                             static_cast<int>(rank)});
  for (const auto* const heading : {"distance", "bound"})
    if (whole.bounds) out.push_back({heading});
  if (ulps) out.push_back({"ULP"});
  if (whole.reference) out.push_back({"ratio"});
  if (whole.world() > 1) out.push_back({"ranks agree"});
  return out;
}

void count_ranks_left_out(Details& details, const Whole& whole, const std::vector<size_t>& shown) {
  size_t wrong = 0;
  for (size_t rank = 0; rank < whole.world(); ++rank)
    if (std::find(shown.begin(), shown.end(), rank) == shown.end() &&
        std::any_of(whole.lines.begin(), whole.lines.end(),
                    [&](const Line& line) { return is_wrong(line, rank); }))
      ++wrong;
  count_left_out(details, whole.ranks, whole.world() - shown.size(), wrong);
}

Details details_of(const Whole& whole) {
  const auto ranks = ranks_to_show(whole);
  const auto wrong = wrong_lines(whole);
  const auto rows = chosen(whole.lines.size(), kRowsMost, wrong);
  const bool ulps = whole.reference && std::any_of(rows.begin(), rows.end(), [&](size_t at) {
                      return whole.lines[at].ulps.value.value_or(0) > 0;
                    });
  Table table{.columns = columns_of(whole, ranks, ulps), .rows = {}};
  size_t wrong_shown = 0;
  for (const auto at : rows) {
    table.rows.push_back(row_of(whole, at, ranks, ulps));
    wrong_shown += whole.lines[at].wrong.empty() ? 0 : 1;
  }
  Details details{std::move(table)};
  count_left_out(details, whole.rows, whole.lines.size() - rows.size(),
                 wrong.size() - 1 - wrong_shown);
  count_ranks_left_out(details, whole, ranks);
  return details;
}

}  // namespace

size_t first_element(const Difference& is) {
  const auto wrong = wrong_ranks(is);
  size_t first = std::numeric_limits<size_t>::max();
  for (const auto rank : wrong)
    first = std::min(first,
                     first_difference(is.row.by_rank[rank], is.expected[rank], bound_of(is, rank)));
  return wrong.empty() ? 0 : first;
}

FindingPlace place(const Row& row, const TensorValue& like, size_t element) {
  return {row.at, row.name, index_of(like, element)};
}

Details divergence(const std::vector<Difference>& rows, size_t first) {
  const auto& is = rows[first];
  Whole whole;
  if (!all_alike(is.expected)) {
    whole.first = wrong_ranks(is).front();
    whole.bounds = !is.bounds.empty();
    whole.rows = kRanks;
    for (size_t rank = 0; rank < is.expected.size(); ++rank)
      whole.lines.push_back(line_of_rank(is, rank, first_element(is)));
    return details_of(whole);
  }
  for (size_t at = 0; at < rows.size(); ++at) {
    if (!all_alike(rows[at].expected)) continue;
    if (at == first) whole.first = whole.lines.size();
    whole.bounds = whole.bounds || !rows[at].bounds.empty();
    whole.lines.push_back(line_of(rows[at], first_element(rows[at])));
  }
  return details_of(whole);
}

Details disagreement(const std::vector<Row>& rows, size_t first) {
  Whole whole{.first = first, .reference = false, .rows = kRowsAlike, .ranks = kRanksAlike};
  for (const auto& row : rows) {
    const Difference is{row, std::vector(row.by_rank.size(), row.by_rank.front()), {}};
    whole.lines.push_back(line_of(is, first_element(is)));
  }
  return details_of(whole);
}

}  // namespace lockstep
