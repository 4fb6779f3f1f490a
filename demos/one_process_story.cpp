#include "demos/one_process.h"
#include "harness/base/text.h"
#include "scenarios/cases/tensors.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace lockstep::demos::one_process {

namespace {

std::string short_text(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.2g", value);
  return text;
}

// Rounds to a few digits.
double shown(double value) {
  return std::round(value * 1e4) / 1e4;
}

// The largest of a tensor's values, of its bounds, and of each rank's distances.
struct Distances {
  double value = 0, bound = 0;
  std::vector<double> by_rank;
  bool is_outside(size_t rank) const { return outside[rank]; }
  std::vector<bool> outside;
};

Distances distances(const TrainingCase& c, const History& h, const Parameters& right, size_t p) {
  const auto dtype = scalar_type(c.settings.dtype);
  const auto [value, bound] = scenarios::written(right[p], dtype);
  const auto exact = as_doubles(scenarios::recorded(right[p].value, at::kDouble));
  const auto allowed = as_doubles(bound), rounded = as_doubles(value);
  Distances out;
  for (size_t i = 0; i < exact.size(); ++i) {
    out.value = std::max(out.value, std::abs(exact[i]));
    out.bound = std::max(out.bound, allowed[i]);
  }
  for (const auto& held : h.row({c.settings.steps - 1, kUpdated}, kNames[p]).by_rank) {
    const auto values = as_doubles(held);
    double most = 0;
    bool is_outside = false;
    for (size_t i = 0; i < values.size(); ++i) {
      most = std::max(most, std::abs(values[i] - exact.at(i)));
      is_outside = is_outside || std::abs(values[i] - rounded.at(i)) > allowed[i];
    }
    out.by_rank.push_back(most);
    out.outside.push_back(is_outside);
  }
  return out;
}

struct Summary {
  reports::Grid grid;
  double most = 0, bound = 0;  // of the ranks' distances, and of what rounding allows
  bool is_outside = false;
};

Summary compared(const TrainingCase& c, const History& h) {
  const auto right = trajectory(c, rate_of(c)).back();
  Summary out{.grid = {.column_axis = "parameter", .columns = {{"", {}}}, .rows = {}}};
  out.grid.rows = {{{"one process", reports::kReference}, {}}, {{"may differ by"}, {}}};
  for (int rank = 0; rank < c.world.size; ++rank)
    out.grid.rows.push_back({{"rank " + std::to_string(rank) + " differs by", rank}, {}});
  for (size_t p = 0; p < kParameters; ++p) {
    const auto all = distances(c, h, right, p);
    out.grid.columns[0].names.emplace_back(kNames[p]);
    out.grid.rows[0].cells.push_back({reports::number_text(shown(all.value))});
    out.grid.rows[1].cells.push_back({short_text(all.bound)});
    for (size_t rank = 0; rank < all.by_rank.size(); ++rank) {
      out.grid.rows[rank + 2].cells.push_back(
          {short_text(all.by_rank[rank]),
           all.is_outside(rank) ? reports::Mark::wrong : reports::Mark::plain});
      out.most = std::max(out.most, all.by_rank[rank]);
      out.is_outside = out.is_outside || all.is_outside(rank);
    }
    out.bound = std::max(out.bound, all.bound);
  }
  return out;
}

// The losses before each update: of one process, the average over the ranks, of rank 0 alone.
struct Losses {
  std::vector<double> one_process, ranks, alone;
};

Losses losses_of(const TrainingCase& c, const History& h) {
  const auto path = trajectory(c, rate_of(c));
  const auto whole = whole_batch(c);
  Losses out;
  for (int step = 0; step < c.settings.steps; ++step) {
    out.one_process.push_back(loss_of(path[static_cast<size_t>(step)], whole));
    double sum = 0;
    for (const auto& loss : h.row({step, kUpdated}, kLoss).by_rank) sum += as_doubles(loss).at(0);
    out.ranks.push_back(sum / c.world.size);
  }
  for (const auto& event : h.ranks().front().events)
    if (const auto* seen = std::get_if<Observation>(&event.what))
      if (event.at.phase == kAlone) out.alone.push_back(as_doubles(seen->value).at(0));
  if (out.alone.size() != out.ranks.size()) throw NotSeen("rank 0 did not train alone", 0);
  return out;
}

reports::Picture curves_of(const TrainingCase& c, const Losses& losses) {
  reports::Lines lines{.column_axis = "step",
                       .value_axis = "loss",
                       .columns = {},
                       .series = {{reference_label(), losses.one_process},
                                  {{"all ranks"}, losses.ranks},
                                  {{"rank 0 alone", 0}, losses.alone}},
                       .range = {0, 0.8}};
  for (auto& series : lines.series)
    for (auto& value : series.values) value = shown(value);
  double apart = 0;
  for (int step = 0; step < c.settings.steps; ++step) {
    lines.columns.push_back(std::to_string(step));
    const auto i = static_cast<size_t>(step);
    apart = std::max(apart, std::abs(losses.ranks[i] - losses.one_process[i]));
  }
  return {.title = "The loss on all samples, before each update",
          .caption = "the curves of one process and of all ranks are at most " + short_text(apart) +
                     " apart",
          .body = std::move(lines)};
}

}  // namespace

DemoStory show(const TrainingCase& c, const History& h) {
  auto summary = compared(c, h);
  const auto losses = losses_of(c, h);
  const auto after =
      "After " + counted(c.settings.steps, "update") + " in " + word_of(c.settings.dtype) + " ";
  DemoStory story;
  story.finding = after + std::to_string(c.world.size) +
                  " ranks differ from one process by up to " + short_text(summary.most) +
                  ", where rounding allows " + short_text(summary.bound) +
                  (summary.is_outside ? ": this is another training." : ": it is one training.");
  story.pictures = {{.title = "The parameters after the last update, the largest number of each",
                     .caption = summary.is_outside ? "some differ by more than rounding explains"
                                                   : "every difference is within its bound",
                     .body = std::move(summary.grid),
                     .key = {{reports::Mark::wrong, "further off than rounding allows"}}},
                    curves_of(c, losses)};
  const auto last = as_doubles(h.row({0, kUpdated}, kNames[3]).by_rank.back()).at(0);
  story.question = {
      "After the first update rank 0 holds the bias fc2.bias " +
          reports::number_text(
              shown(as_doubles(h.row({0, kUpdated}, kNames[3]).by_rank.front()).at(0))) +
          ". Rank " + std::to_string(c.world.size - 1) + " has other samples. What does it hold?",
      reports::number_text(shown(last)),
      "gradients are averaged before every update, so that equal parameters stay equal"};
  return story;
}

}  // namespace lockstep::demos::one_process
