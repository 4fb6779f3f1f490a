#include "cli/output/worked_example.h"

#include "harness/worlds/about.h"
#include "harness/worlds/tiers.h"
#include "reports/findings/text.h"
#include "reports/pictures/picture.h"

#include <algorithm>
#include <map>

namespace lockstep::cli {

namespace {

constexpr std::chrono::seconds kDeadlineOfExamples{30};

// The first numbers of a value: "0.5 0.25 -1 2 ...".
std::string numbers_text(const TensorValue& value) {
  std::vector<double> numbers;
  try {
    numbers = as_doubles(value);
  } catch (const std::invalid_argument&) {  // of a dtype without numbers
    return shape_text(value);
  }
  std::vector<std::string> texts;
  for (size_t i = 0; i < std::min(numbers.size(), kExampleNumbers); ++i)
    texts.push_back(reports::number_text(numbers[i]));
  if (texts.empty()) return "none";
  return joined(texts, " ") + (numbers.size() > kExampleNumbers ? " ..." : "");
}

// The records that every rank made, in rank 0's order: each once.
std::vector<Row> shared_rows(const History& history) {
  std::vector<Row> rows;
  for (const auto& event : history.ranks().front().events) {
    const auto* seen = std::get_if<Observation>(&event.what);
    if (!seen) continue;
    const bool is_known = std::any_of(rows.begin(), rows.end(), [&](const Row& row) {
      return row.at == event.at && row.name == seen->name;
    });
    if (is_known) continue;
    try {
      rows.push_back(history.row(event.at, seen->name));
    } catch (const NotSeen&) {  // a record of some ranks alone
    }
  }
  return rows;
}

// "each rank issued 2 broadcast, 1 allreduce", of rank 0.
std::string collectives_text(const History& history) {
  std::map<std::string, int64_t> counts;
  for (const auto& each : history.collectives(0)) ++counts[each.op];
  std::vector<std::string> parts;
  for (const auto& [op, count] : counts) parts.push_back(with_commas(count) + " " + op);
  return parts.empty() ? "" : "; rank 0 issued " + joined(parts, ", ");
}

}  // namespace

std::vector<std::string> example_lines(const Verdict& verdict, const History& history) {
  if (history.size() == 0) return {std::string(name_of(verdict.kind))};
  std::string first = "the smallest case, on " + std::to_string(history.size()) +
                      (history.size() == 1 ? " rank: " : " ranks: ") +
                      std::string(name_of(verdict.kind)) + collectives_text(history);
  if (!verdict.findings.empty()) first += "; " + verdict.findings.front().diagnosis;
  std::vector<std::string> lines{first};
  const auto rows = shared_rows(history);
  const auto ranks = std::min(static_cast<size_t>(history.size()), kExampleRanks);
  std::vector<std::vector<std::string>> table{{"step, moment, name"}};
  for (size_t rank = 0; rank < ranks; ++rank) table[0].push_back("rank " + std::to_string(rank));
  for (size_t i = 0; i < std::min(rows.size(), kExampleRows); ++i) {
    auto& cells = table.emplace_back();
    cells.push_back(std::to_string(rows[i].at.step) + ", " + rows[i].at.phase + ", " +
                    rows[i].name);
    for (size_t rank = 0; rank < ranks; ++rank)
      cells.push_back(numbers_text(rows[i].by_rank[rank]));
  }
  if (!rows.empty())
    for (const auto& line : reports::in_columns(table)) lines.push_back(line);
  if (rows.size() > kExampleRows)
    lines.push_back("and " + with_commas(static_cast<int64_t>(rows.size() - kExampleRows)) +
                    " more; replay -v shows all");
  return lines;
}

std::vector<std::string> worked_example(const Known& known, const Scenario& scenario,
                                        SingleThreaded alone) {
  const auto setting = setting_of(default_subject(known), kSim.name, Setting().backend);
  if (const auto reason = known.subjects.why_not(setting.subject); !reason.empty())
    return {"not run: " + reason};
  const auto c = scenario.smallest();
  ForkedOptions options{.ranks_most = world_size(c)};
  std::erase_if(options.backends, [&](const auto& each) { return each.name != setting.backend; });
  const auto lanes = forked_lanes(std::move(alone), {scenario}, known.subjects, 1, options);
  use_one_intra_op_thread();
  const auto history =
      lanes.front()->run(scenario, c, setting, {.time_limit = kDeadlineOfExamples});
  return example_lines(judge(scenario, c, history), history);
}

}  // namespace lockstep::cli
