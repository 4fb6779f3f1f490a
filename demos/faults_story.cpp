#include "demos/faults.h"
#include "harness/base/text.h"
#include "harness/verdict/compare.h"
#include "harness/verdict/usual_cause.h"
#include "scenarios/cases/tensors.h"

#include <algorithm>
#include <map>

namespace lockstep::demos::faults {

namespace {

constexpr int64_t kGradients = 2;

TensorValue gradients(double average) {
  return scenarios::recorded(torch::tensor({average, 2 * average}, at::kDouble), at::kFloat);
}

// The average of samples that follow each other.
double average_of(int first, int count) {
  return first + 1 + (count - 1) / 2.0;
}

double own_average(const FaultCase& c, int rank, int step) {
  return average_of(first_sample(c, rank, step), samples_of(c, rank));
}

std::vector<Row> rows_of(const History& h, const std::string& program, const char* name) {
  std::vector<Row> rows;
  for (int step = 0; step < kSteps; ++step) rows.push_back(h.row({step, program}, name));
  return rows;
}

std::optional<Findings> samples_are_drawn_once(const FaultCase& c, const History& h,
                                               const std::string& program) {
  for (const auto& row : rows_of(h, program, kSamples)) {
    std::map<int64_t, int> times;
    for (const auto& of_rank : row.by_rank)
      for (const auto sample : as_integers(of_rank)) ++times[sample];
    const int first = first_sample(c, 0, row.at.step), count = whole_batch(c);
    for (int sample = first; sample < first + count; ++sample)
      if (times[sample] != 1)
        return Findings{{"Every sample of a step must be drawn once", "not_a_partition",
                         "step " + std::to_string(row.at.step),
                         "sample " + std::to_string(sample) + " is drawn " +
                             (times[sample] == 0 ? std::string("by no rank")
                                                 : std::to_string(times[sample]) + " times")}};
  }
  return Findings{};
}

std::optional<Findings> gradients_are_one_processs(const FaultCase& c, const History& h,
                                                   const std::string& program) {
  std::vector<Comparison> rows;
  auto before = gradients(0);
  for (const auto& row : rows_of(h, program, kGradient)) {
    const int step = row.at.step;
    std::vector<TensorValue> own;
    double of_averages = 0;
    for (int rank = 0; rank < c.world.size; ++rank) {
      own.push_back(gradients(own_average(c, rank, step) * weight_of(c, rank)));
      of_averages += own_average(c, rank, step) / c.world.size;
    }
    const auto right = gradients(average_of(first_sample(c, 0, step), whole_batch(c)));
    rows.push_back({.row = row,
                    .expected = {right},
                    .explanations = [own, before, unweighted = gradients(of_averages)] {
                      return Explanations{sum_not_average("gradients"), divided_twice(),
                                          not_reduced(own), average_of_averages({unweighted}),
                                          last_steps_value({before})};
                    }});
    before = right;
  }
  return equal("Every rank must hold the gradient of one process on the whole batch", rows);
}

Findings caused(const std::string& cause, Findings findings) {
  for (auto& finding : findings) finding.cause = cause;
  return findings;
}

std::optional<Findings> gradients_agree(const FaultCase&, const History& h,
                                        const std::string& program) {
  return alike("All ranks must hold equal gradients", rows_of(h, program, kGradient));
}

std::optional<Findings> weights_agree(const FaultCase&, const History& h,
                                      const std::string& program) {
  return caused(
      "ranks began with different parameters, or update by different learning rates",
      alike("All ranks must hold equal weights after an update", rows_of(h, program, kWeights)));
}

std::optional<Findings> buffers_follow(const FaultCase& c, const History& h,
                                       const std::string& program) {
  if (!c.settings.buffers) return {};
  return caused(
      usual_cause({.rule = "", .pattern = "kept_own_buffers", .where = "", .diagnosis = ""}),
      alike("A forward must begin with rank 0's buffer on every rank",
            rows_of(h, program, kBuffer)));
}

std::optional<Findings> gradients_are_sent_once(const FaultCase& c, const History& h,
                                                const std::string& program) {
  for (int step = 0; step < kSteps; ++step)
    for (int rank = 0; rank < c.world.size; ++rank) {
      int64_t sent = 0;
      for (const auto& issued : h.collectives(rank, {step, program}))
        if (issued.op == "allreduce" && issued.dtype == "float32") sent += issued.elements;
      // A library may send a number or two of its own.
      if (sent < kGradients || sent >= 2 * kGradients)
        return Findings{{"Every gradient must be all-reduced once in a step", "sent_otherwise",
                         "step " + std::to_string(step),
                         "rank " + std::to_string(rank) + " all-reduces " +
                             counted(sent, "number") + " in step " + std::to_string(step) +
                             ", for " + std::to_string(kGradients) + " gradients"}};
    }
  return Findings{};
}

enum class Outcome { caught, escaped, not_applicable };

Outcome outcome_of(const FaultCase& c, const History& h, const Property& property,
                   const std::string& program) {
  const auto findings = property.judge(c, h, program);
  if (!findings) return Outcome::not_applicable;
  return findings->empty() ? Outcome::escaped : Outcome::caught;
}

int times_caught(const FaultCase& c, const History& h, const std::string& program) {
  int times = 0;
  for (const auto& property : properties())
    times += outcome_of(c, h, property, program) == Outcome::caught ? 1 : 0;
  return times;
}

int faults_caught(const FaultCase& c, const History& h, const Property& property) {
  int count = 0;
  for (const auto& fault : all_faults())
    count += outcome_of(c, h, property, fault.name) == Outcome::caught ? 1 : 0;
  return count;
}

reports::Grid::Row row_of(const FaultCase& c, const History& h, const reports::Label& label,
                          const std::string& program) {
  using reports::Mark;
  reports::Grid::Row row{label, {}};
  for (const auto& property : properties()) {
    const auto outcome = outcome_of(c, h, property, program);
    row.cells.push_back(outcome == Outcome::caught    ? reports::Cell{"", Mark::filled}
                        : outcome == Outcome::escaped ? reports::Cell{"·"}
                                                      : reports::Cell{"n/a"});
  }
  const int times = times_caught(c, h, program);
  row.cells.push_back(
      {std::to_string(times), times == 0 && program != kThis ? Mark::wrong : Mark::plain});
  return row;
}

// Mistakes that the fewest properties catch come first; those that one property catches stand
// together.
std::vector<DemoMistake> by_catchers(const FaultCase& c, const History& h) {
  const auto key = [&](const DemoMistake& fault) {
    size_t first = 0;
    while (first < properties().size() &&
           outcome_of(c, h, properties()[first], fault.name) != Outcome::caught)
      ++first;
    return std::pair(times_caught(c, h, fault.name), first);
  };
  auto faults = all_faults();
  std::ranges::stable_sort(faults, {}, key);
  return faults;
}

reports::Picture matrix_of(const FaultCase& c, const History& h) {
  reports::Grid grid{.column_axis = "fault", .columns = {{"", {}}}, .rows = {}};
  for (const auto& property : properties()) grid.columns[0].names.emplace_back(property.name);
  grid.columns[0].names.emplace_back("by");
  grid.rows.push_back(row_of(
      c, h, {c.mistake == kNoMistake ? "none: DDP" : "--wrong", reports::kReference}, kThis));
  int64_t alone = 0;
  for (const auto& fault : by_catchers(c, h)) {
    grid.rows.push_back(row_of(c, h, {fault.name}, fault.name));
    alone += times_caught(c, h, fault.name) == 1 ? 1 : 0;
  }
  const auto faults = static_cast<int64_t>(all_faults().size());
  return {.title = "Which property catches which fault",
          .caption = std::to_string(alone) + " of " + counted(faults, "fault") +
                     ", the first ones, would escape without the one property that catches them",
          .body = std::move(grid),
          .key = {{reports::Mark::filled, "caught"},
                  {reports::Mark::wrong, "escapes: with these settings it changes nothing"}}};
}

}  // namespace

const std::vector<Property>& properties() {
  static const std::vector<Property> all{
      {"samples", samples_are_drawn_once}, {"1 process", gradients_are_one_processs},
      {"agree", gradients_agree},          {"weights", weights_agree},
      {"buffers", buffers_follow},         {"sent", gradients_are_sent_once}};
  return all;
}

DemoStory show(const FaultCase& c, const History& h) {
  const auto faults = static_cast<int>(all_faults().size());
  int caught = 0;
  std::vector<std::string> silent;  // caught, although the ranks agree with each other
  for (const auto& fault : all_faults()) {
    caught += times_caught(c, h, fault.name) > 0 ? 1 : 0;
    if (outcome_of(c, h, properties()[1], fault.name) == Outcome::caught &&
        outcome_of(c, h, properties()[2], fault.name) == Outcome::escaped)
      silent.push_back(fault.name);
  }
  DemoStory story;
  story.finding = std::to_string(caught) + " of " + std::to_string(faults) +
                  " faults are caught, " + std::to_string(faults_caught(c, h, properties()[1])) +
                  " by the gradient of one process and " +
                  std::to_string(faults_caught(c, h, properties()[2])) +
                  " by comparing the ranks' gradients with each other.";
  story.pictures = {matrix_of(c, h)};
  const auto first = own_average(c, 0, 0), right = average_of(0, whole_batch(c));
  story.question = {
      "One process has the gradient " + reports::number_text(right) +
          " for a in step 0. Gradients "
          "that are summed and not divided give every one of " +
          std::to_string(c.world.size) + " ranks the same number. Which one?",
      reports::number_text(as_doubles(h.row({0, kNotDivided}, kGradient).by_rank[0]).at(0)),
      "it is the average times the number of ranks. All ranks agree on it, so that only the "
      "reference shows the fault: " +
          joined(silent, ", ") + " are of this kind. (Rank 0 alone has " +
          reports::number_text(first) + ".)"};
  return story;
}

}  // namespace lockstep::demos::faults
