#include "harness/verdict/divergence.h"

#include "harness/base/text.h"
#include "harness/verdict/columns.h"
#include "harness/verdict/element.h"
#include "harness/verdict/relation.h"

#include <algorithm>
#include <limits>

namespace lockstep {

namespace {

constexpr size_t kRowsMost = 8;
constexpr size_t kRankColumnsMost = 6;
constexpr size_t kRankLinesMost = 8;

bool all_same(const std::vector<TensorValue>& values) {
  return std::all_of(values.begin(), values.end(), [&](const TensorValue& value) {
    return close(value, values.front(), nullptr);
  });
}

const TensorValue* bound_of(const Difference& is, size_t rank) {
  return is.bounds.empty() ? nullptr : &is.bounds[rank];
}

// One line of the table, before its columns are known.
struct Line {
  std::string name, reference;
  std::vector<std::string> by_rank;
  std::string distance = kNothing, bound = kNothing, ulp = kNothing, ratio = kNothing;
  std::vector<size_t> wrong;  // ranks
  bool agree = true;
};

// Where a rank's dtype or shape differs, these replace the values.
Line shapes_of(const Difference& is) {
  Line line{.name = is.row.name, .reference = shape_text(is.expected.front())};
  for (const auto& value : is.row.by_rank) line.by_rank.push_back(shape_text(value));
  return line;
}

Line values_of(const Difference& is) {
  const size_t at = first_element(is);
  const auto& right = is.expected.front();
  std::vector<const TensorValue*> all{&right};
  for (const auto& value : is.row.by_rank) all.push_back(&value);
  const int digits = digits_for(all, at);
  const auto wanted = element(right, at, digits);
  Line line{.name = is.row.name + (wanted.value ? index_text(right, at) : ""),
            .reference = wanted.text};
  size_t furthest = 0;
  std::vector<Element> seen;
  for (size_t rank = 0; rank < is.row.by_rank.size(); ++rank) {
    seen.push_back(element(is.row.by_rank[rank], at, digits));
    line.by_rank.push_back(seen.back().text);
    if (distance(seen[rank], wanted) > distance(seen[furthest], wanted)) furthest = rank;
  }
  if (wanted.value) line.distance = number(distance(seen[furthest], wanted), 3);
  if (const auto* bound = bound_of(is, furthest)) line.bound = element(*bound, at, 3).text;
  line.ulp = ulp_text(seen[furthest], wanted, right);
  line.ratio = ratio_text(seen[furthest], wanted);
  return line;
}

Line line_of(const Difference& is) {
  const bool comparable =
      std::all_of(is.row.by_rank.begin(), is.row.by_rank.end(),
                  [&](const TensorValue& value) { return same_shape(value, is.expected.front()); });
  Line line = comparable ? values_of(is) : shapes_of(is);
  line.wrong = wrong_ranks(is);
  line.agree = all_same(is.row.by_rank);
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
void count_left_out(std::vector<std::string>& text, const Words& words, size_t left, size_t wrong) {
  if (left == 0) return;
  const auto number = [](size_t count) { return with_commas(static_cast<int64_t>(count)); };
  const std::string how = wrong == 0      ? (left == 1 ? "" : "all ") + std::string(words.good)
                          : wrong == left ? (left == 1 ? "" : "all ") + std::string(words.bad)
                                          : number(wrong) + " of them " + words.bad;
  text.push_back("and " + number(left) + " more " + words.what + (left == 1 ? "" : "s") + ", " +
                 how);
}

struct Table {
  std::vector<Line> lines;
  size_t first = 0;
  bool bounds = false, reference = true;
};

std::vector<size_t> wrong_lines(const Table& table) {
  std::vector<size_t> out{table.first};
  for (size_t at = 0; at < table.lines.size(); ++at)
    if (!table.lines[at].wrong.empty()) out.push_back(at);
  return out;
}

std::vector<size_t> ranks_to_show(const Table& table) {
  std::vector<size_t> preferred;
  for (const auto at : wrong_lines(table))
    preferred.insert(preferred.end(), table.lines[at].wrong.begin(), table.lines[at].wrong.end());
  return chosen(table.lines.front().by_rank.size(), kRankColumnsMost, preferred);
}

std::vector<std::string> cells(const Table& table, size_t at, const std::vector<size_t>& ranks,
                               bool ulp) {
  const Line& line = table.lines[at];
  std::vector<std::string> out{line.name};
  if (table.reference) out.push_back(line.reference);
  for (const auto rank : ranks) out.push_back(line.by_rank[rank]);
  if (table.bounds) out.insert(out.end(), {line.distance, line.bound});
  if (ulp) out.push_back(line.ulp);
  if (table.reference) out.push_back(line.ratio);
  if (line.by_rank.size() > 1) out.push_back(line.agree ? "yes" : "no");
  out.push_back(at == table.first ? "◄" : line.wrong.empty() ? "" : "✗");
  return out;
}

std::vector<std::string> heading(const Table& table, const std::vector<size_t>& ranks, bool ulp) {
  std::vector<std::string> out{"name"};
  if (table.reference) out.emplace_back("reference");
  for (const auto rank : ranks) out.push_back("rank " + std::to_string(rank));
  if (table.bounds) out.insert(out.end(), {"distance", "bound"});
  if (ulp) out.emplace_back("ULP");
  if (table.reference) out.emplace_back("ratio");
  if (table.lines.front().by_rank.size() > 1) out.emplace_back("ranks agree");
  out.emplace_back("");
  return out;
}

void count_ranks_left_out(std::vector<std::string>& text, const Table& table,
                          const std::vector<size_t>& shown) {
  const size_t world = table.lines.front().by_rank.size();
  size_t wrong = 0;
  for (size_t rank = 0; rank < world; ++rank) {
    const auto is_wrong = [&](const Line& line) {
      return std::find(line.wrong.begin(), line.wrong.end(), rank) != line.wrong.end();
    };
    if (std::find(shown.begin(), shown.end(), rank) == shown.end() &&
        std::any_of(table.lines.begin(), table.lines.end(), is_wrong))
      ++wrong;
  }
  count_left_out(text, table.reference ? kRanks : kRanksAlike, world - shown.size(), wrong);
}

std::vector<std::string> text_of(const Table& table) {
  const auto ranks = ranks_to_show(table);
  const auto wrong = wrong_lines(table);
  const auto rows = chosen(table.lines.size(), kRowsMost, wrong);
  const bool ulp = table.reference && std::any_of(rows.begin(), rows.end(), [&](size_t at) {
                     return table.lines[at].ulp != kNothing;
                   });
  std::vector<std::vector<std::string>> lines{heading(table, ranks, ulp)};
  for (const auto at : rows) lines.push_back(cells(table, at, ranks, ulp));
  auto text = in_columns(lines);
  size_t wrong_shown = 0;
  for (const auto at : rows) wrong_shown += table.lines[at].wrong.empty() ? 0 : 1;
  count_left_out(text, table.reference ? kRows : kRowsAlike, table.lines.size() - rows.size(),
                 wrong.size() - 1 - wrong_shown);
  count_ranks_left_out(text, table, ranks);
  return text;
}

std::string rank_line(const Difference& is, size_t rank, size_t at) {
  const auto& right = is.expected[rank];
  const auto& value = is.row.by_rank[rank];
  std::string text = "rank " + std::to_string(rank) + "  ";
  if (!same_shape(value, right))
    return text + shape_text(value) + "  reference " + shape_text(right);
  const int digits = digits_for({&value, &right}, at);
  const auto seen = element(value, at, digits), wanted = element(right, at, digits);
  text += seen.text + "  reference " + wanted.text;
  if (distance(seen, wanted) == 0) return text;
  std::vector<std::string> how_far;
  if (const auto ulp = ulp_text(seen, wanted, right); ulp != kNothing)
    how_far.push_back(ulp + " ULP");
  if (const auto* bound = bound_of(is, rank))
    how_far.push_back("distance " + number(distance(seen, wanted), 3) + ", bound " +
                      element(*bound, at, 3).text);
  return text + (how_far.empty() ? "" : "  (" + joined(how_far, ", ") + ")");
}

std::vector<std::string> line_a_rank(const Difference& is) {
  const auto wrong = wrong_ranks(is);
  const auto ranks = chosen(is.expected.size(), kRankLinesMost, wrong);
  std::vector<std::string> text;
  size_t wrong_shown = 0;
  for (const auto rank : ranks) {
    text.push_back(rank_line(is, rank, first_element(is)));
    wrong_shown += std::find(wrong.begin(), wrong.end(), rank) == wrong.end() ? 0 : 1;
  }
  count_left_out(text, kRanks, is.expected.size() - ranks.size(), wrong.size() - wrong_shown);
  return text;
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

std::string place(const Row& row, const TensorValue& like, size_t element) {
  return "step " + std::to_string(row.at.step) + ", " + row.at.phase + ", " + row.name +
         index_text(like, element);
}

std::vector<std::string> divergence(const std::vector<Difference>& rows, size_t first) {
  if (!all_same(rows[first].expected)) return line_a_rank(rows[first]);
  Table table;
  for (size_t at = 0; at < rows.size(); ++at) {
    if (!all_same(rows[at].expected)) continue;
    if (at == first) table.first = table.lines.size();
    table.bounds = table.bounds || !rows[at].bounds.empty();
    table.lines.push_back(line_of(rows[at]));
  }
  return text_of(table);
}

std::vector<std::string> disagreement(const std::vector<Row>& rows, size_t first) {
  Table table{.reference = false};
  for (size_t at = 0; at < rows.size(); ++at) {
    if (at == first) table.first = table.lines.size();
    const auto& by_rank = rows[at].by_rank;
    table.lines.push_back(line_of({rows[at], std::vector(by_rank.size(), by_rank.front()), {}}));
  }
  return text_of(table);
}

}  // namespace lockstep
