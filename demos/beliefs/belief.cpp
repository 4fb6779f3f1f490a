#include "demos/beliefs/belief.h"

#include "harness/base/text.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace lockstep::demos::beliefs {

namespace {

constexpr Condition kRuns[] = {Condition::unmet, Condition::met};
// In a cell: so many numbers, and fewer where they are long.
constexpr size_t kNumbersMost = 8, kNumbersLeast = 4, kLettersMost = 24;

const char* phase_of(Condition run) {
  return run == Condition::unmet ? "first run" : "second run";
}

// The condition of a run of this case.
Condition planted(const Case& c, Condition run) {
  const auto mistake = c.value.at("mistake").get<std::string>();
  if (mistake == kUnmet) return Condition::unmet;
  return mistake == kMet ? Condition::met : run;
}

// Where the first run ends the world, the second comes before it.
void program(const BeliefSpec& spec, const Case& c, RankContext& here) {
  auto runs = std::to_array(kRuns);
  if (spec.shows_endings) std::reverse(runs.begin(), runs.end());
  for (const auto run : runs) {
    const Run one(here, run, planted(c, run));
    one.enter(0);
    spec.program(one);
  }
}

Findings checks(const BeliefSpec& spec, const Case& c, const History& h) {
  Findings out;
  const bool anyway = spec.is_met_anyway && spec.is_met_anyway(world_size(c));
  for (const auto run : kRuns) {
    const bool is_met = run == Condition::met || anyway;
    const auto outcome = spec.outcome({h, run});
    if (outcome.holds == is_met) continue;
    const auto name = (run == Condition::met ? spec.met : spec.unmet) + ": " + outcome.fact;
    if (is_met)
      out += {{"A belief must hold where its condition is met", "belief_fails", phase_of(run),
               "the belief fails " + name}};
    else
      out += {{"A belief must fail where its condition is not met", "belief_holds", phase_of(run),
               "the belief holds " + name}};
  }
  return out;
}

reports::Picture picture_of(const std::string& title, const Outcome& outcome, int world) {
  reports::Grid grid{.column_axis = "", .columns = {{"", {}}}, .rows = {}};
  const bool has_reference =
      std::any_of(outcome.columns.begin(), outcome.columns.end(),
                  [](const auto& column) { return !column.one_process.empty(); });
  if (has_reference) grid.rows.push_back({reference_label(), {}});
  for (int rank = 0; rank < world; ++rank) grid.rows.push_back({reports::rank_label(rank), {}});
  for (const auto& column : outcome.columns) {
    grid.columns[0].names.push_back(column.name);
    size_t row = 0;
    if (has_reference) grid.rows[row++].cells.push_back({column.one_process});
    for (const auto& text : column.by_rank) grid.rows.at(row++).cells.push_back({text});
  }
  return {.title = title, .caption = outcome.fact, .body = std::move(grid)};
}

std::string upper(std::string text) {
  text[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[0])));
  return text;
}

// The run that is asked about: either, in no order that a viewer learns.
Condition asked_run(int number) {
  return (number / 2 + number / 5) % 2 == 0 ? Condition::unmet : Condition::met;
}

DemoStory show(const BeliefSpec& spec, const History& h) {
  DemoStory story;
  std::vector<std::string> parts;
  for (const auto run : kRuns) {
    const auto outcome = spec.outcome({h, run});
    const auto& name = run == Condition::unmet ? spec.unmet : spec.met;
    parts.push_back((outcome.holds ? "holds " : "fails ") + name);
    story.pictures.push_back(
        picture_of(upper(name) + (outcome.holds ? ": it holds" : ": it fails"), outcome, h.size()));
  }
  story.pictures.back().is_beside = true;
  const auto asked = asked_run(spec.number);
  const auto outcome = spec.outcome({h, asked});
  story.question = {"\"" + spec.belief + ".\" Does that hold " +
                        (asked == Condition::met ? spec.met : spec.unmet) + "?",
                    outcome.holds ? "yes" : "no", outcome.fact};
  story.finding = "\"" + spec.belief + "\" " + joined(parts, " and ") + ".";
  return story;
}

}  // namespace

void Run::enter(int step) const {
  here_.enter(step, phase_of(recorded_as_));
}

void Run::record(const std::string& name, double value) const {
  here_.record(name, torch::full({1}, value, at::kDouble));
}

Moment Records::moment(int step) const {
  return {step, phase_of(run_)};
}

bool Records::has(const std::string& name, int step) const {
  try {
    (void)history_.row(moment(step), name);
    return true;
  } catch (const NotSeen&) {
    return false;
  }
}

std::vector<double> Records::numbers(int rank, const std::string& name, int step) const {
  return as_doubles(history_.row(moment(step), name).by_rank[static_cast<size_t>(rank)]);
}

std::vector<double> Records::by_rank(const std::string& name, int step) const {
  std::vector<double> out;
  for (int rank = 0; rank < world(); ++rank) out.push_back(numbers(rank, name, step).at(0));
  return out;
}

int64_t Records::collectives(const std::string& op, int step) const {
  const auto all = history_.collectives(0, moment(step));
  return std::count_if(all.begin(), all.end(), [&](const auto& each) { return each.op == op; });
}

bool all_same(const std::vector<double>& values) {
  return std::all_of(values.begin(), values.end(),
                     [&](double value) { return value == values.front(); });
}

bool is_close(double a, double b) {
  constexpr double kOfFloat = 1e-4;
  return std::abs(a - b) <= kOfFloat * (1 + std::max(std::abs(a), std::abs(b)));
}

bool all_close(const std::vector<double>& values, double right) {
  return std::all_of(values.begin(), values.end(),
                     [&](double value) { return is_close(value, right); });
}

Outcome beside_one_process(const std::string& said, const std::vector<double>& held, double alone,
                           std::vector<Outcome::Column> columns) {
  return {all_close(held, alone),
          said + reports::number_text(held.front()) + ", one process has " +
              reports::number_text(alone),
          std::move(columns)};
}

Outcome::Column column(const std::string& title, const Records& records, const std::string& name,
                       int step) {
  Outcome::Column out{title, {}};
  for (int rank = 0; rank < records.world(); ++rank) {
    auto values = records.numbers(rank, name, step);
    const size_t recorded = values.size();
    values.resize(std::min(recorded, kNumbersMost));
    while (values.size() > kNumbersLeast && spaced(values).size() > kLettersMost) values.pop_back();
    out.by_rank.push_back(spaced(values) + (values.size() < recorded ? " ..." : ""));
  }
  return out;
}

Outcome::Column column(const std::string& title, const Records& records, const std::string& name,
                       int step, double one_process) {
  auto out = column(title, records, name, step);
  out.one_process = reports::number_text(one_process);
  return out;
}

Demo finished(Demo made, const BeliefSpec& spec) {
  const auto shared = std::make_shared<const BeliefSpec>(spec);
  made.condition = spec.condition;
  made.text = "It is true when " + spec.condition + ". " + spec.text;
  made.scenario.judges_endings = spec.shows_endings;
  made.scenario.program = [shared](const Case& c, RankContext& here) { program(*shared, c, here); };
  made.scenario.checks = [shared](const Case& c, const History& h) {
    return checks(*shared, c, h);
  };
  if (spec.shows_endings) {  // nothing can follow a run that never ends
    std::erase_if(made.mistakes, [](const auto& mistake) { return mistake.name == kMet; });
    made.case_of = [inner = made.case_of, name = made.name, mistakes = made.mistakes](
                       const Demo::Values& values, const std::string& mistake) {
      if (!mistake.empty()) require_mistake(name, mistakes, mistake);
      return inner(values, mistake);
    };
  }
  made.show = [shared](const Case& /*c*/, const History& h) { return show(*shared, h); };
  return made;
}

}  // namespace lockstep::demos::beliefs
