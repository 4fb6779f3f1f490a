// The ladder of collectives: who issued which, rank by rank, and where a rank is missing.
//
// Every step all-reduces one number, the rank's step + 1. A mistake makes the ranks' orders differ;
// a simulated world proves at once that nobody can run any more.
#include "demos/make.h"
#include "harness/base/text.h"
#include "harness/rank/rank_context.h"
#include "harness/verdict/compare.h"
#include "harness/verdict/trace.h"

#include <torch/torch.h>

#include <algorithm>

namespace lockstep::demos::hang {

namespace {

using reports::counted;

constexpr char kSkips[] = "one_rank_skips", kOneMore[] = "one_too_many",
               kOtherSize[] = "other_size";

struct Settings {
  int world = 4;
  int steps = 3;
  int rank = 1;
  auto operator<=>(const Settings&) const = default;
  static constexpr auto fields() {
    return std::tuple{field("world", &Settings::world, between(2, 8)),
                      field("steps", &Settings::steps, between(2, 6)),
                      field("rank", &Settings::rank, between(0, 1))};
  }
};
using HangCase = Staged<Settings>;

int64_t all_reduced(RankContext& here, int step, int64_t elements = 1) {
  std::vector<at::Tensor> numbers{torch::full({elements}, step + 1, at::kLong)};
  here.group()->allreduce(numbers)->wait();
  return numbers.front()[0].item<int64_t>();
}

void program(const HangCase& c, RankContext& here) {
  const bool errs = here.rank() == c.settings.rank;
  const int middle = c.settings.steps / 2;
  for (int step = 0; step < c.settings.steps; ++step) {
    here.enter(step, "all-reduce");
    int64_t sum = 0;
    if (!(errs && c.mistake == kSkips && step == middle))
      sum = all_reduced(here, step, errs && c.mistake == kOtherSize && step == middle ? 2 : 1);
    here.record("sum", std::vector<int64_t>{sum});
  }
  if (errs && c.mistake == kOneMore) all_reduced(here, c.settings.steps);
}

Findings sums_are_those_of_the_step(const HangCase& c, const History& h) {
  std::vector<Comparison> rows;
  for (int step = 0; step < c.settings.steps; ++step)
    rows.push_back({.row = h.row({step, "all-reduce"}, "sum"),
                    .expected = {int64_values({int64_t{c.world.size} * (step + 1)})}});
  return equal("Every rank must hold the sum over the ranks", rows);
}

std::vector<std::vector<Collective>> issued_by_ranks(const HangCase& c, const History& h) {
  std::vector<std::vector<Collective>> issued;
  for (int rank = 0; rank < c.world.size; ++rank) issued.push_back(h.collectives(rank));
  return issued;
}

size_t rungs_of(const std::vector<std::vector<Collective>>& issued) {
  size_t most = 0;
  for (const auto& of_rank : issued) most = std::max(most, of_rank.size());
  return most;
}

reports::Picture ladder_of(const HangCase& c, const History& h) {
  const auto issued = issued_by_ranks(c, h);
  reports::Grid grid{.column_axis = "all-reduce", .columns = {{"", {}}}, .rows = {}};
  for (int rank = 0; rank < c.world.size; ++rank)
    grid.rows.push_back({reports::rank_label(rank), {}});
  size_t whole = 0;
  for (size_t rung = 0; rung < rungs_of(issued); ++rung) {
    grid.columns[0].names.push_back("#" + std::to_string(rung));
    bool all_done = true;
    for (size_t rank = 0; rank < issued.size(); ++rank) {
      const bool is_there = rung < issued[rank].size();
      all_done = all_done && is_there && issued[rank][rung].done;
      auto& cells = grid.rows[rank].cells;
      if (!is_there)
        cells.push_back({"none", reports::Mark::missing});
      else
        cells.push_back({(issued[rank][rung].done ? "done, of " : "waits, of ") +
                             std::to_string(issued[rank][rung].elements),
                         issued[rank][rung].done ? reports::Mark::plain : reports::Mark::wrong});
    }
    whole += all_done ? 1 : 0;
  }
  return {.title = "Who issued which all-reduce, of how many numbers",
          .caption = std::to_string(whole) + " of " +
                     counted(static_cast<int64_t>(rungs_of(issued)), "all-reduce") +
                     " were completed by all ranks",
          .body = std::move(grid),
          .key = {{reports::Mark::missing, "never issued by this rank"},
                  {reports::Mark::wrong, "issued, and never done"}}};
}

DemoStory show(const HangCase& c, const History& h) {
  const auto issued = issued_by_ranks(c, h);
  const auto divergence = first_divergence_point(h);
  DemoStory story;
  story.finding = divergence ? divergence->text + "."
                             : counted(c.world.size, "rank") + " issued " +
                                   counted(static_cast<int64_t>(rungs_of(issued)), "all-reduce") +
                                   " each, in one order, and nobody waits.";
  story.pictures = {ladder_of(c, h)};
  const int last = c.settings.steps - 1;
  story.question = {
      "In step " + std::to_string(last) + " each of " + std::to_string(c.world.size) +
          " ranks all-reduces the number " + std::to_string(last + 1) +
          ". If one rank had left out one all-reduce before, how many of the " +
          std::to_string(c.settings.steps) + " would be completed?",
      std::to_string(last),
      "collectives are matched by their order on each rank, not by the step: the rank's next one "
      "takes the place of the one that it left out, and in the end the others wait for one more"};
  return story;
}

}  // namespace

Demo demonstration() {
  return demo<Settings>(
      {.name = "hang",
       .lesson = "the ladder of collectives, and the rung that a rank left out",
       .text = "Every rank all-reduces one number in every step. Collectives have no names: the "
               "n-th of one rank meets the n-th of every other. --wrong makes one rank differ.",
       .meanings = {"number of ranks", "all-reduces of every rank",
                    "the rank in which a mistake is planted"},
       .mistakes = {{kSkips, "one rank leaves out the all-reduce of a step"},
                    {kOneMore, "one rank issues one all-reduce more at the end"},
                    {kOtherSize, "one rank all-reduces two numbers in a step"}},
       .program = program,
       .checks = {sums_are_those_of_the_step},
       .show = show});
}

}  // namespace lockstep::demos::hang
