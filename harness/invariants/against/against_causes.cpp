#include "harness/invariants/against/against_causes.h"

#include "harness/base/text.h"
#include "harness/invariants/optimizers/settings.h"
#include "harness/invariants/rows.h"
#include "harness/recorded/passes.h"
#include "harness/verdict/numbers.h"

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <set>
#include <utility>

namespace lockstep::recorded {

namespace {

// The samples that a rank drew to train on, by step. A batch that is drawn behind an update belongs
// to the next step.
std::map<int, int64_t> samples_by_step(const Rank& rank) {
  std::set<std::string> training;
  for (const auto& [source, passes] : passes_of(rank))
    if (std::any_of(passes.begin(), passes.end(), [](const Pass& pass) { return pass.trains; }))
      training.insert(source);
  std::map<int, int64_t> counts;
  for (const auto& record : rank.records)
    if (const auto* drawn = std::get_if<Drawn>(&record.what);
        drawn && training.contains(drawn->name))
      counts[record.at.step + (record.at.phase == phase::kUpdate ? 1 : 0)] +=
          static_cast<int64_t>(drawn->indices.size());
  return counts;
}

int64_t count_at(const std::map<int, int64_t>& counts, int step) {
  const auto found = counts.find(step);
  return found == counts.end() ? 0 : found->second;
}

// Over how many terms the loss of each backward of a step averages.
std::vector<int64_t> terms_by_backward(const Rank& rank, int step) {
  std::vector<int64_t> all;
  int64_t terms = 0;
  for (const auto& record : rank.records) {
    const auto* fact = std::get_if<Fact>(&record.what);
    if (!fact || record.at.step != step) continue;
    if (fact->name == fact::kTerms) terms += fact->whole("terms").value_or(0);
    if (fact->name == fact::kBackward && terms > 0) all.push_back(std::exchange(terms, 0));
  }
  return all;
}

// "512 and 489 terms", where counts differ; empty where all are equal.
std::string unlike_counts(const std::vector<int64_t>& counts, const char* what) {
  if (std::all_of(counts.begin(), counts.end(), [&](auto n) { return n == counts.front(); }))
    return "";
  if (std::any_of(counts.begin(), counts.end(), [](auto n) { return n == 0; })) return "";
  std::vector<std::string> texts;
  for (const auto count : counts) texts.push_back(with_commas(count));
  const auto last = texts.back();
  texts.pop_back();
  return joined(texts, ", ") + " and " + last + " " + what;
}

std::string mean_of_means(const RecordedRun& run, const std::vector<int64_t>& samples, int step) {
  std::vector<int64_t> terms;
  std::string in_rank;
  for (const auto& rank : run.ranks) {
    const auto backwards = terms_by_backward(rank, step);
    terms.push_back(std::accumulate(backwards.begin(), backwards.end(), int64_t{0}));
    if (const auto text = unlike_counts(backwards, "terms"); in_rank.empty() && !text.empty())
      in_rank = "the backwards of rank " + std::to_string(rank.number) + " have " + text;
  }
  auto text = unlike_counts(terms, "terms");
  if (text.empty() && !in_rank.empty()) return in_rank;
  if (text.empty()) text = unlike_counts(samples, "samples");
  return text.empty() ? "" : "ranks have " + text;
}

bool changed_before_averaging(const Rank& rank, int step) {
  return std::any_of(rank.records.begin(), rank.records.end(), [&](const Record& record) {
    const auto* fact = fact_in(record, fact::kBackward);
    return fact && record.at.step == step && fact->truth("changed");
  });
}

// The first setting up to a step in which an optimizer of the ranks is not as in one process.
std::string setting_unlike(const Rank& rank, const Rank& one, int step) {
  const auto there = updates_by_optimizer(one);
  for (const auto& [optimizer, updates] : updates_by_optimizer(rank)) {
    const auto found = there.find(optimizer);
    for (size_t at = 0; found != there.end() && at < std::min(updates.size(), found->second.size());
         ++at) {
      if (updates[at].step > step) break;
      if (auto text = other_setting(*updates[at].optimizer, *found->second[at].optimizer,
                                    "the ranks have", "one process has");
          !text.empty())
        return text + ", in step " + std::to_string(updates[at].step);
    }
  }
  return "";
}

// True if the model drops units in the backward of the step.
bool drops_units(const Rank& rank, const PointRow& row) {
  bool has_dropout = false;
  for (const auto& record : rank.records) {
    if (const auto* model = model_in(record); model && model->name == row.point.of)
      has_dropout = model->whole("dropouts").value_or(0) > 0;
    const auto* fact = fact_in(record, fact::kBackward);
    if (fact && fact->text("model") == row.point.of && fact->values.contains("training") &&
        record.at.step <= row.point.step)
      has_dropout = has_dropout && fact->truth("training");
  }
  return has_dropout;
}

// A model with BatchNorm cannot follow one process.
Details batch_norm_note(const RecordedRun& run) {
  for (const auto& record : run.ranks.front().records)
    if (const auto* model = model_in(record); model && model->whole("batch_norms").value_or(0) > 0)
      return {model->name +
              " has BatchNorm, which takes the statistics of each rank's own batch; SyncBatchNorm "
              "takes those of all ranks' batches"};
  return {};
}

// Every rank that differs holds what `make` makes of the expected values, but for a part of the
// way there: in half precision single elements round too coarsely for more.
template <class Make>
bool nearly_hold(const Difference& is, Make make) {
  constexpr double kPart = 0.2;
  for (const auto rank : wrong_ranks(is)) {
    const auto seen = as_doubles(is.row.by_rank[rank]), wanted = as_doubles(is.expected[rank]);
    if (seen.size() != wanted.size()) return false;
    double off = 0, way = 0;
    for (size_t i = 0; i < seen.size(); ++i) {
      const double made = make(wanted[i], i);
      off += (seen[i] - made) * (seen[i] - made);
      way += (wanted[i] - made) * (wanted[i] - made);
    }
    if (!(way > 0) || !(off <= kPart * kPart * way)) return false;
  }
  return true;
}

Explanation factor_of(double factor, const Diagnosis& diagnosis) {
  return [=](const Difference& is) -> std::optional<Diagnosis> {
    if (!nearly_hold(is, [&](double wanted, size_t) { return factor * wanted; })) return {};
    return diagnosis;
  };
}

// Every rank made `factor` times the update of one process: its rate was scaled with the ranks.
Explanation update_times(double factor, const std::string& text, const TensorValue& before) {
  return [=](const Difference& is) -> std::optional<Diagnosis> {
    const auto from = as_doubles(before);
    if (from.size() != as_doubles(is.expected.front()).size()) return {};
    const auto make = [&](double wanted, size_t i) {
      return from[i] + factor * (wanted - from[i]);
    };
    if (!nearly_hold(is, make)) return {};
    return Diagnosis{"update_off_by_world", text};
  };
}

// Gradients of the micro-batches of a step that were added.
void add_accumulation(Explanations& all, double count) {
  if (count < 2) return;
  const auto times = short_number(count);
  all.push_back(factor_of(
      count, {"accumulation_not_divided",
              "every gradient is " + times + " x that of one process: the losses of a step's " +
                  times + " backwards were added, and not divided by their number"}));
  all.push_back(factor_of(1 / count, {"accumulation_divided_twice",
                                      "every gradient is that of one process, divided by the " +
                                          times + " backwards of a step once more"}));
}

}  // namespace

Explanations explanations_of(const PointRow& row, size_t tensor, const StepCounts& counts) {
  const auto world = static_cast<double>(row.by_rank.size());
  const bool has_before = row.before && row.before->list->tensors == row.one->list->tensors &&
                          !row.before->values[tensor].is_missing();
  Explanations all;
  const std::string or_added =
      counts.backwards == world
          ? ", or the losses of a step's " + short_number(world) + " backwards, not divided"
          : "";
  if (row.point.stage == TensorPoint::Stage::gradients && world > 1)
    all = {
        factor_of(world, {"sum_not_average",
                          "the SUM of the ranks' gradients, not the average (every value is "
                          "world_size x too big)" +
                              or_added}),
        factor_of(1 / world, {"divided_twice", "the average divided by the world size once more"})};
  if (row.point.stage == TensorPoint::Stage::gradients) {
    add_accumulation(all, counts.backwards);
    if (const double ratio = counts.batch_ratio(); ratio > 0 && ratio != 1)
      all.push_back(
          factor_of(ratio, {"off_by_batch_ratio",
                            "every gradient is that of one process, times the ratio of its "
                            "batch to the ranks' batches, " +
                                short_number(ratio)}));
  }
  if (row.point.stage == TensorPoint::Stage::parameters && has_before && world > 1) {
    const auto& before = row.before->elements[tensor];
    all = {update_times(world, "every update is world_size times that of one process", before),
           update_times(1 / world, "every update is that of one process divided by world_size",
                        before)};
  }
  if (has_before) all.push_back(last_steps_value({row.before->elements[tensor]}));
  return all;
}

std::string short_number(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.2g", value);
  return text;
}

int64_t StepCounts::all_samples() const {
  return std::accumulate(samples.begin(), samples.end(), int64_t{0});
}

double StepCounts::batch_ratio() const {
  const auto all = all_samples();
  return all > 0 ? static_cast<double>(samples_of_one) / static_cast<double>(all) : 0;
}

StepCounter::StepCounter(const RecordedRun& run, const RecordedRun& one)
    : samples_of_one_(samples_by_step(one.ranks.front())) {
  for (const auto& rank : run.ranks) samples_.push_back(samples_by_step(rank));
  for (const auto& record : run.ranks.front().records)
    if (const auto* fact = fact_in(record, fact::kBackward))
      ++backwards_[fact->text("model")][record.at.step];
}

StepCounts StepCounter::at(const PointRow& row) const {
  StepCounts counts{.samples_of_one = count_at(samples_of_one_, row.point.step)};
  for (const auto& of_rank : samples_) counts.samples.push_back(count_at(of_rank, row.point.step));
  if (const auto found = backwards_.find(row.point.of); found != backwards_.end())
    counts.backwards = static_cast<double>(count_at(found->second, row.point.step));
  return counts;
}

void add_causes(Finding& finding, const PointRow& row, const StepCounts& counts,
                const RecordedRun& run, const OneProcess& one) {
  if (run.ranks.size() == 1) return;
  const bool is_named = finding.pattern != "ranks_agree_reference_differs";
  const auto here = counts.all_samples(), there = counts.samples_of_one;
  if (!is_named && here > 0 && there > 0 && here != there) {
    finding.details.push_back(Cause{"in this step the ranks train on " + with_commas(here) +
                                    " samples together and one process on " + with_commas(there) +
                                    ": a rank's batch size is its part of that of one process"});
    finding.pattern = "other_global_batch";
  } else if (changed_before_averaging(run.ranks.front(), row.point.step) &&
             !changed_before_averaging(one.run.ranks.front(), row.point.step)) {
    finding.details.push_back(
        Cause{"clipped before averaging: a rank changed its gradients between two backwards of "
              "this step, where one process clips the average"});
    if (!is_named) finding.pattern = "clipped_before_averaging";
  } else if (const auto text = mean_of_means(run, counts.samples, row.point.step);
             !is_named && !text.empty()) {
    finding.details.push_back(Cause{"mean of means: " + text +
                                    ", and the average of their gradients weights them alike"});
    finding.pattern = "average_of_averages";
  }
  if (const auto text = setting_unlike(run.ranks.front(), one.run.ranks.front(), row.point.step);
      row.point.stage == TensorPoint::Stage::parameters && !text.empty()) {
    finding.details.push_back(Cause{text});
    if (!is_named) finding.pattern = "other_setting";
  }
  if (finding.pattern == "ranks_agree_reference_differs" && drops_units(run.ranks.front(), row)) {
    finding.pattern = "drops_units";
    finding.details.push_back(row.point.of +
                              " has dropout, which leaves out other units on each rank than in one "
                              "process: compare it without");
  }
  finding.details += batch_norm_note(run);
}

}  // namespace lockstep::recorded
