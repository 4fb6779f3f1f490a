// The ladder of collectives: who issued which, rank by rank, and where a rank is missing.
//
// Every step all-reduces one number, the rank's step + 1. One rank leaves out one of them, and
// before it the same ranks do all of them. A simulated world proves at once that nobody can run any
// more. With a mistake there is that one run, and the world is judged by how it ends.
#include "demos/make.h"
#include "harness/base/text.h"
#include "harness/rank/rank_context.h"
#include "harness/verdict/compare.h"
#include "harness/verdict/trace.h"

#include <torch/torch.h>

#include <algorithm>

namespace lockstep::demos::hang {

namespace {

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
                      field("rank", &Settings::rank, between(0, 7))};
  }
};
using HangCase = Staged<Settings>;

constexpr const char *kRight = "right run", *kThis = "this run";

int64_t all_reduced(RankContext& here, int step, int64_t elements = 1) {
  std::vector<at::Tensor> numbers{torch::full({elements}, step + 1, at::kLong)};
  here.group()->allreduce(numbers)->wait();
  return numbers.front()[0].item<int64_t>();
}

int left_out_step(const HangCase& c) {
  return c.settings.steps / 2;
}

void train(const HangCase& c, RankContext& here, const char* run, const std::string& mistake) {
  const bool errs = here.rank() == c.settings.rank;
  for (int step = 0; step < c.settings.steps; ++step) {
    here.enter(step, run);
    const bool errs_now = errs && step == left_out_step(c);
    int64_t sum = 0;
    if (!(errs_now && mistake == kSkips))
      sum = all_reduced(here, step, errs_now && mistake == kOtherSize ? 2 : 1);
    here.record("sum", std::vector<int64_t>{sum});
  }
  if (errs && mistake == kOneMore) all_reduced(here, c.settings.steps);
}

void program(const HangCase& c, RankContext& here) {
  if (c.mistake == kNoMistake) train(c, here, kRight, kNoMistake);
  train(c, here, kThis, c.mistake == kNoMistake ? kSkips : c.mistake);
}

Findings sums_are_those_of_the_step(const HangCase& c, const History& h) {
  std::vector<Comparison> rows;
  for (int step = 0; step < c.settings.steps; ++step)
    rows.push_back({.row = h.row({step, c.mistake == kNoMistake ? kRight : kThis}, "sum"),
                    .expected = {int64_values({int64_t{c.world.size} * (step + 1)})}});
  return equal("Every rank must hold the sum over the ranks", rows);
}

// An all-reduce that a rank issued, and the step in which it did.
struct Issued {
  Collective collective;
  int step;
};
using Ladder = std::vector<std::vector<Issued>>;  // by rank

Ladder ladder_in(const HangCase& c, const History& h, const char* run) {
  Ladder ladder(static_cast<size_t>(c.world.size));
  for (int rank = 0; rank < c.world.size; ++rank)
    for (int step = 0; step < c.settings.steps; ++step)
      for (const auto& collective : h.collectives(rank, {step, run}))
        ladder[static_cast<size_t>(rank)].push_back({collective, step});
  return ladder;
}

size_t rungs_of(const Ladder& ladder) {
  size_t most = 0;
  for (const auto& issued : ladder) most = std::max(most, issued.size());
  return most;
}

std::vector<int> waiting_in(const Ladder& ladder) {
  std::vector<int> waiting;
  for (size_t rank = 0; rank < ladder.size(); ++rank)
    if (!ladder[rank].empty() && !ladder[rank].back().collective.done)
      waiting.push_back(static_cast<int>(rank));
  return waiting;
}

Findings the_others_wait(const HangCase& c, const History& h) {
  if (c.mistake != kNoMistake) return {};
  const auto waiting = waiting_in(ladder_in(c, h, kThis));
  if (static_cast<int>(waiting.size()) == c.world.size - 1) return {};
  return {{"Where one rank leaves out an all-reduce, every other rank must wait", "nobody_waits",
           kThis,
           std::to_string(waiting.size()) + " of " + std::to_string(c.world.size) + " ranks wait"}};
}

reports::Cell cell_of(const std::vector<Issued>& issued, size_t rung, int usual_step) {
  using reports::Mark;
  if (rung >= issued.size()) return {"never", Mark::missing};
  const auto& [collective, step] = issued[rung];
  auto text = "step " + std::to_string(step);
  if (collective.elements != 1) text += ", " + counted(collective.elements, "number");
  return {text, !collective.done ? Mark::wrong : step != usual_step ? Mark::repeated : Mark::plain};
}

reports::Picture ladder_of(const HangCase& c, const History& h, const char* run,
                           const std::string& title) {
  const auto ladder = ladder_in(c, h, run);
  reports::Grid grid{.column_axis = "all-reduce", .columns = {{"", {}}}, .rows = {}};
  for (int rank = 0; rank < c.world.size; ++rank)
    grid.rows.push_back({reports::rank_label(rank), {}});
  const auto& usual = ladder[c.settings.rank == 0 ? 1 : 0];  // of a rank that does not err
  int64_t whole = 0;
  for (size_t rung = 0; rung < rungs_of(ladder); ++rung) {
    grid.columns[0].names.push_back("#" + std::to_string(rung));
    bool all_done = true;
    for (size_t rank = 0; rank < ladder.size(); ++rank) {
      all_done = all_done && rung < ladder[rank].size() && ladder[rank][rung].collective.done;
      grid.rows[rank].cells.push_back(
          cell_of(ladder[rank], rung, rung < usual.size() ? usual[rung].step : c.settings.steps));
    }
    whole += all_done ? 1 : 0;
  }
  return {.title = title,
          .caption = std::to_string(whole) + " of " + counted(rungs_of(ladder), "all-reduce") +
                     (whole == 1 ? " was" : " were") + " completed by all ranks",
          .body = std::move(grid),
          .key = {{reports::Mark::missing, "never issued by this rank: the missing rung"},
                  {reports::Mark::repeated, "summed with the numbers of another step"},
                  {reports::Mark::wrong, "issued, and never done: the rank waits"}}};
}

// "rank 1 issued 2 all-reduces, the others 3: 3 of 4 ranks wait for ever in #2".
std::string sentence_of(const HangCase& c, const History& h, const char* run) {
  const auto ladder = ladder_in(c, h, run);
  const auto count = [&](int rank) {
    return static_cast<int64_t>(ladder[static_cast<size_t>(rank)].size());
  };
  const int errs = c.settings.rank, other = errs == 0 ? 1 : 0;
  const auto waiting = waiting_in(ladder);
  if (waiting.empty())
    return "every rank issued " + counted(count(other), "all-reduce") + ", and nobody waits";
  return "rank " + std::to_string(errs) + " issued " + counted(count(errs), "all-reduce") +
         ", the others " + std::to_string(count(other)) + ": " + who(waiting, c.world.size) +
         (waiting.size() == 1 ? " waits" : " wait") + " for ever in #" +
         std::to_string(count(waiting.front()) - 1);
}

std::string as_sentence(std::string text) {
  text[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[0])));
  return text + ".";
}

DemoStory show(const HangCase& c, const History& h) {
  const auto divergence = first_divergence_point(h);
  const bool differ_in_size = c.mistake == kOtherSize && divergence;
  DemoStory story;
  story.finding = as_sentence(differ_in_size ? divergence->text : sentence_of(c, h, kThis));
  const auto step = std::to_string(left_out_step(c));
  story.pictures = {ladder_of(
      c, h, kThis,
      c.mistake == kNoMistake
          ? "Rank " + std::to_string(c.settings.rank) + " leaves out the all-reduce of step " + step
          : "Which rank issued which all-reduce")};
  if (c.mistake == kNoMistake) {
    story.finding += " " + as_sentence("in the right run " + sentence_of(c, h, kRight));
    story.pictures.push_back(ladder_of(c, h, kRight, "The right run of the same ranks"));
    story.pictures.back().is_beside = true;
  }
  const int last = c.settings.steps - 1;
  story.question = {
      "In step " + std::to_string(last) + " each of " + std::to_string(c.world.size) +
          " ranks all-reduces the number " + std::to_string(last + 1) +
          ". If one rank has left out one all-reduce before, how many of the " +
          std::to_string(c.settings.steps) + " are completed?",
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
               "n-th of one rank meets the n-th of every other. Here one rank leaves one out.",
       .meanings = {"number of ranks", "all-reduces of every rank",
                    "the rank that leaves one out, or makes the mistake"},
       .mistakes = {{kSkips, "one rank leaves out the all-reduce of a step"},
                    {kOneMore, "one rank issues one all-reduce more at the end"},
                    {kOtherSize, "one rank all-reduces two numbers in a step"}},
       .refusal = [](const Settings& s) { return why_no_rank("rank", s.rank, s.world); },
       .program = program,
       .checks = {sums_are_those_of_the_step, the_others_wait},
       .show = show,
       .shows_a_hang = true});
}

}  // namespace lockstep::demos::hang
