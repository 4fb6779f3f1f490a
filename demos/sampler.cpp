// The samples that each rank draws, epoch beside epoch, and which are drawn twice or never.
//
// The judge is sampler.partitions_the_dataset, whose checks read the same records.
#include "demos/make.h"
#include "harness/base/text.h"
#include "harness/rank/rank_context.h"
#include "harness/worlds/subject.h"
#include "reference/sampling.h"
#include "scenarios/cases/sampling.h"
#include "scenarios/catalogue.h"

#include <algorithm>
#include <set>

namespace lockstep::demos::sampler {

namespace {

constexpr char kProof[] = "sampler.partitions_the_dataset";
constexpr char kForgotten[] = "set_epoch_forgotten", kSeedPerRank[] = "seed_per_rank";

struct Settings {
  int world = 2;
  int64_t samples = 10;
  int epochs = 2;
  bool shuffle = true;
  bool drop_last = false;
  int64_t seed = 0;
  auto operator<=>(const Settings&) const = default;
  static constexpr auto fields() {
    return std::tuple{field("world", &Settings::world, between(1, 8)),
                      field("samples", &Settings::samples, between(1, 64)),
                      field("epochs", &Settings::epochs, between(1, 4)),
                      field("shuffle", &Settings::shuffle),
                      field("drop_last", &Settings::drop_last),
                      field("seed", &Settings::seed, between(0, 1'000'000))};
  }
};
using SamplerCase = Staged<Settings>;

void program(const SamplerCase& c, RankContext& here) {
  const auto& s = c.settings;
  const auto samples =
      shard(here, {.length = s.samples,
                   .shuffle = s.shuffle,
                   .drop_last = s.drop_last,
                   .seed = s.seed + (c.mistake == kSeedPerRank ? here.rank() : 0)});
  for (int epoch = 0; epoch < s.epochs; ++epoch) {
    here.enter(epoch, "epoch");
    if (c.mistake != kForgotten) samples->set_epoch(epoch);
    here.record("samples", samples->draw());
  }
}

Findings ranks_share_the_dataset(const SamplerCase& c, const History& h) {
  const auto& s = c.settings;
  const scenarios::Sampling judged{.world = c.world,
                                   .epochs = s.epochs,
                                   .drop_last = s.drop_last,
                                   .shuffle = s.shuffle,
                                   .length = s.samples,
                                   .seed = s.seed};
  return scenario_in_catalogue(kProof).checks({kProof, to_json(judged)}, h);
}

// The samples that one epoch drew, step by step over the ranks.
struct Drawn {
  std::vector<std::vector<int64_t>> by_rank;
  std::set<int64_t> seen;
  int64_t draws = 0;
  explicit Drawn(const Row& row) {
    for (const auto& value : row.by_rank) by_rank.push_back(as_integers(value));
    for (const auto& samples : by_rank) seen.insert(samples.begin(), samples.end());
    for (const auto& samples : by_rank) draws += static_cast<int64_t>(samples.size());
  }
  size_t steps() const {
    size_t most = 0;
    for (const auto& samples : by_rank) most = std::max(most, samples.size());
    return most;
  }
};

std::vector<Drawn> epochs_of(const SamplerCase& c, const History& h) {
  std::vector<Drawn> epochs;
  for (int epoch = 0; epoch < c.settings.epochs; ++epoch)
    epochs.emplace_back(h.row({epoch, "epoch"}, "samples"));
  return epochs;
}

std::vector<int64_t> order_of(const SamplerCase& c, int epoch) {
  const auto& s = c.settings;
  return reference::global_order({.length = s.samples,
                                  .world_size = c.world.size,
                                  .shuffle = s.shuffle,
                                  .drop_last = s.drop_last,
                                  .seed = s.seed,
                                  .epoch = epoch});
}

std::string sentence_of(const SamplerCase& c, const Drawn& epoch, const std::string& when) {
  const auto samples = c.settings.samples;
  const auto again = epoch.draws - static_cast<int64_t>(epoch.seen.size());
  const auto never = samples - static_cast<int64_t>(epoch.seen.size());
  return counted(c.world.size, "rank") + (c.world.size == 1 ? " draws " : " draw ") +
         std::to_string(epoch.seen.size()) + " of " + counted(samples, "sample") + when + ", " +
         (again == 0 ? "none twice" : std::to_string(again) + " again") +
         (never == 0 ? "" : ", " + std::to_string(never) + " never");
}

std::string finding_of(const SamplerCase& c, const std::vector<Drawn>& epochs) {
  const auto alike = [&](const auto& member) {
    return std::all_of(epochs.begin(), epochs.end(),
                       [&](const Drawn& epoch) { return member(epoch) == member(epochs.front()); });
  };
  if (epochs.size() == 1) return sentence_of(c, epochs[0], "") + ".";
  const bool same_counts = alike([](const Drawn& epoch) { return epoch.seen.size(); });
  return sentence_of(c, epochs[0], same_counts ? " in each epoch" : " in epoch 0") + "; " +
         (alike([](const Drawn& epoch) { return epoch.by_rank; })
              ? "every epoch has the same order."
              : "the epochs have different orders.");
}

// True where every rank drew its share of the order of one process.
bool is_dealt(const SamplerCase& c, const std::vector<Drawn>& epochs) {
  for (size_t epoch = 0; epoch < epochs.size(); ++epoch) {
    const auto order = order_of(c, static_cast<int>(epoch));
    const auto world = static_cast<size_t>(c.world.size);
    for (size_t place = 0; place < order.size(); ++place)
      if (epochs[epoch].by_rank[place % world].at(place / world) != order[place]) return false;
  }
  return true;
}

reports::Picture grid_of(const SamplerCase& c, const std::vector<Drawn>& epochs) {
  reports::Grid grid{.column_axis = "step", .columns = {}, .rows = {{reference_label(), {}}}};
  for (int rank = 0; rank < c.world.size; ++rank)
    grid.rows.push_back({reports::rank_label(rank), {}});
  for (size_t epoch = 0; epoch < epochs.size(); ++epoch) {
    const auto& drawn = epochs[epoch];
    const auto order = order_of(c, static_cast<int>(epoch));
    grid.columns.push_back({"epoch " + std::to_string(epoch), {}});
    std::set<int64_t> seen;
    for (size_t step = 0; step < drawn.steps(); ++step) {
      grid.columns.back().names.push_back(std::to_string(step));
      const auto world = static_cast<size_t>(c.world.size);
      const auto begin = order.begin() + static_cast<std::ptrdiff_t>(step * world);
      grid.rows[0].cells.push_back(
          {spaced(std::vector<int64_t>(begin, begin + static_cast<std::ptrdiff_t>(world)))});
      for (size_t rank = 0; rank < world; ++rank) {
        const auto sample = drawn.by_rank[rank].at(step);
        grid.rows[rank + 1].cells.push_back(
            {std::to_string(sample),
             seen.insert(sample).second ? reports::Mark::plain : reports::Mark::repeated});
      }
    }
  }
  return {.title = "The samples of each rank, step by step",
          .caption = is_dealt(c, epochs) ? "in each step the ranks draw what one process draws"
                                         : "the ranks do not draw what one process draws",
          .body = std::move(grid),
          .key = {{reports::Mark::repeated, "drawn before in this epoch"}}};
}

// Asked of the last rank, since the first is in the picture's first row.
DemoQuestion question_of(const SamplerCase& c, const Drawn& epoch) {
  const int rank = c.world.size - 1;
  const auto& own = epoch.by_rank[static_cast<size_t>(rank)];
  const size_t step = std::min<size_t>(1, own.size() - 1);
  const auto place = static_cast<size_t>(rank) + step * static_cast<size_t>(c.world.size);
  return {"One process draws " + spaced(order_of(c, 0)) + " in epoch 0, and rank 0 of " +
              std::to_string(c.world.size) + " draws " + spaced(epoch.by_rank[0]) +
              ". Which sample does rank " + std::to_string(rank) + " draw in step " +
              std::to_string(step) + "?",
          std::to_string(own[step]),
          "rank r draws every sample of the order whose place is r plus a multiple of the number "
          "of ranks; this one is at place " +
              std::to_string(place) + ", counted from 0"};
}

DemoStory show(const SamplerCase& c, const History& h) {
  const auto epochs = epochs_of(c, h);
  return {.finding = finding_of(c, epochs),
          .pictures = {grid_of(c, epochs)},
          .question = question_of(c, epochs.front())};
}

}  // namespace

Demo demonstration() {
  return demo<Settings>(
      {.name = "sampler",
       .lesson = "which samples each rank draws, and what set_epoch is for",
       .text = "A distributed sampler shuffles the dataset with seed + epoch, pads the order to a "
               "multiple of the number of ranks (or cuts it, with drop_last), and deals it like "
               "cards: rank r gets places r, r + W, r + 2W, ... The first row is the order of one "
               "process.",
       .proof = kProof,
       .meanings = {"number of ranks", "samples in the dataset", "epochs that are drawn",
                    "draw the order from seed + epoch, instead of 0, 1, 2, ...",
                    "cut the order to a multiple of the ranks, instead of repeating samples",
                    "the same on every rank"},
       .mistakes = {{kForgotten, "set_epoch is not called"},
                    {kSeedPerRank, "every rank seeds its sampler with another number"}},
       .refusal =
           [](const Settings& s) {
             return s.drop_last && s.samples < s.world
                        ? "with drop_last there must be a sample for each rank; " +
                              counted(s.samples, "sample") + " for " + counted(s.world, "rank")
                        : std::string();
           },
       .program = program,
       .checks = {ranks_share_the_dataset},
       .show = show});
}

}  // namespace lockstep::demos::sampler
