// In every epoch the ranks' samples are disjoint and cover the dataset, exactly as the contract of
// padding, dropping or neither says, and the order is that of seed + epoch.
//
// Why the checks suffice: the four rules are checked one by one, so that a failure names the
// simplest broken one; the last, the exact order, implies the others. It compares with a Mersenne
// twister, a shuffle and a keyed permutation written in reference/, which uses neither torch nor
// the sampler. Every
// epoch is drawn twice: an order that depended on how often it was drawn would show. Small datasets
// are tried exhaustively, because typical mistakes show where the length is below the world size,
// or not a multiple of it.
#include "harness/base/text.h"
#include "harness/cases/generators.h"
#include "harness/cases/scenario.h"
#include "harness/rank/rank_context.h"
#include "harness/verdict/compare.h"
#include "harness/worlds/subject.h"
#include "reference/sampling.h"
#include "scenarios/cases/labels.h"
#include "scenarios/cases/sampling.h"

#include <algorithm>
#include <map>

namespace lockstep::scenarios::sampler_partitions_the_dataset {
namespace {

rc::Gen<Sampling> cases() {
  using rc::gen::inRange;
  const auto world = gen::build<WorldSpec>(gen::set(&WorldSpec::size, inRange(2, 9)));
  return gen::build<Sampling>(
      gen::set(&Sampling::world, world), gen::set(&Sampling::epochs, inRange(1, 4)),
      gen::set(&Sampling::through_loader), gen::set(&Sampling::drop_last), gen::set(&Sampling::pad),
      gen::set(&Sampling::shuffle, rc::gen::weightedElement<bool>({{4, true}, {1, false}})),
      gen::set(&Sampling::constant_memory, rc::gen::weightedElement<bool>({{1, true}, {2, false}})),
      gen::set(&Sampling::length,
               rc::gen::oneOf(inRange<int64_t>(1, 20), inRange<int64_t>(1, 5000))),
      gen::set(&Sampling::seed, inRange<int64_t>(0, 1 << 20)),
      gen::set(&Sampling::batch_size, inRange<int64_t>(1, 40)));
}

std::vector<Sampling> every_small_one() {
  std::vector<Sampling> all;
  for (int64_t length = 1; length <= 24; ++length)
    for (int world = 1; world <= 6; ++world)
      for (const bool drop_last : {false, true})
        for (const bool pad : {true, false})
          if (pad || !drop_last)
            all.push_back({.world = {.size = world},
                           .epochs = 3,
                           .drop_last = drop_last,
                           .pad = pad,
                           .shuffle = true,
                           .length = length});
  return all;
}

void program(const Sampling& c, RankContext& here) {
  const auto samples = shard(here, {.length = c.length,
                                    .shuffle = c.shuffle,
                                    .drop_last = c.drop_last,
                                    .pad = c.pad,
                                    .constant_memory = c.shuffle && c.constant_memory,
                                    .seed = c.seed,
                                    .through_loader = c.through_loader,
                                    .batch_size = c.batch_size});
  for (int epoch = 0; epoch < c.epochs; ++epoch) {
    here.enter(epoch, "epoch");
    samples->set_epoch(epoch);
    here.record("samples", samples->draw());
    here.record("samples drawn again", samples->draw());
    if (const auto all = samples->foretold()) here.record("samples foretold", *all);
  }
}

Finding broken(const std::string& rule, const std::string& pattern, const Row& row,
               const std::string& text) {
  return {rule, pattern, "epoch " + std::to_string(row.at.step),
          row.name + ", epoch " + std::to_string(row.at.step) + ": " + text};
}

Findings samples_are_in_range(const Sampling& c, const History& h) {
  for (const Row& row : h.rows("epoch"))
    for (size_t rank = 0; rank < row.by_rank.size(); ++rank)
      for (const auto sample : as_integers(row.by_rank[rank]))
        if (sample < 0 || sample >= c.length)
          return {broken("A sampler must stay inside the dataset", "out_of_range", row,
                         "rank " + std::to_string(rank) + " drew " + std::to_string(sample) +
                             " of a dataset of " + std::to_string(c.length))};
  return {};
}

Findings ranks_draw_equally_many(const Sampling& c, const History& h) {
  if (!c.drop_last && !c.pad) return {};
  for (const Row& row : h.rows("epoch"))
    for (size_t rank = 1; rank < row.by_rank.size(); ++rank)
      if (row.by_rank[rank].shape != row.by_rank[0].shape)
        return {broken("Every rank must draw equally many samples", "unequal_lengths", row,
                       "rank 0 drew " + std::to_string(row.by_rank[0].shape.at(0)) + ", rank " +
                           std::to_string(rank) + " " +
                           std::to_string(row.by_rank[rank].shape.at(0)))};
  return {};
}

// How often each sample is drawn: with padding some twice or more, with dropping some never.
std::map<int64_t, int> counted(const std::vector<int64_t>& samples) {
  std::map<int64_t, int> count;
  for (const auto sample : samples) ++count[sample];
  return count;
}

Findings ranks_share_the_dataset(const Sampling& c, const History& h) {
  for (const Row& row : h.rows("epoch")) {
    std::vector<int64_t> all;
    for (const auto& value : row.by_rank)
      for (const auto sample : as_integers(value)) all.push_back(sample);
    const int64_t world = c.world.size;
    const int64_t wanted = c.drop_last ? c.length / world * world
                           : c.pad     ? (c.length + world - 1) / world * world
                                       : c.length;
    const auto count = counted(all);
    const int64_t missing = c.length - static_cast<int64_t>(count.size());
    const int64_t repeated = static_cast<int64_t>(all.size()) - static_cast<int64_t>(count.size());
    const int64_t missing_allowed = c.drop_last ? c.length - wanted : 0;
    const int64_t repeated_allowed = c.drop_last ? 0 : wanted - c.length;
    if (missing == missing_allowed && repeated == repeated_allowed) continue;
    std::vector<std::string> wrong;
    if (missing != missing_allowed)
      wrong.push_back(std::to_string(missing) + " are never drawn, where " +
                      std::to_string(missing_allowed) + " may be left out");
    if (repeated != repeated_allowed)
      wrong.push_back(std::to_string(repeated) + " are drawn again, where padding repeats " +
                      std::to_string(repeated_allowed));
    return {broken("The ranks must share the dataset, each sample once", "not_a_partition", row,
                   "of " + lockstep::counted(c.length, "sample") + ", " + joined(wrong, "; "))};
  }
  return {};
}

reference::Epoch epoch_of(const Sampling& c, int epoch) {
  return {.length = c.length,
          .world_size = c.world.size,
          .shuffle = c.shuffle,
          .drop_last = c.drop_last,
          .pad = c.pad,
          .constant_memory = c.constant_memory,
          .seed = c.seed,
          .epoch = epoch};
}

std::vector<TensorValue> by_rank(const reference::Epoch& epoch) {
  std::vector<TensorValue> out;
  for (int rank = 0; rank < epoch.world_size; ++rank)
    out.push_back(int64_values(reference::rank_order(epoch, rank)));
  return out;
}

std::vector<TensorValue> in_blocks(const reference::Epoch& epoch) {
  const auto all = reference::global_order(epoch);
  std::vector<TensorValue> out;
  auto from = all.begin();
  for (int rank = 0; rank < epoch.world_size; ++rank) {
    const auto to = from + static_cast<std::ptrdiff_t>(reference::rank_order(epoch, rank).size());
    out.push_back(int64_values({from, to}));
    from = to;
  }
  return out;
}

Explanations usual_mistakes(const reference::Epoch& right) {
  auto first = right, unseeded = right, unshuffled = right, mixed = right;
  first.epoch = 0;
  unseeded.seed = 0;
  unshuffled.shuffle = false;
  mixed.seed = right.seed ^ right.epoch;
  mixed.epoch = 0;
  return {
      recorded_instead({"epoch_ignored", "the order of epoch 0: the epoch is ignored"},
                       by_rank(first)),
      recorded_instead({"seed_ignored", "the order of seed 0: the seed is ignored"},
                       by_rank(unseeded)),
      recorded_instead({"seed_xor_epoch", "the order of seed XOR epoch, not of their sum"},
                       by_rank(mixed)),
      recorded_instead({"not_shuffled", "the dataset's own order: nothing was shuffled"},
                       by_rank(unshuffled)),
      recorded_instead({"blocks_not_strides", "a contiguous block for each rank, not every W-th"},
                       in_blocks(right)),
  };
}

Findings order_is_that_of_seed_and_epoch(const Sampling& c, const History& h) {
  Findings out;
  for (const Row& row : h.rows("epoch")) {
    const auto right = epoch_of(c, row.at.step);
    out += equal(c.constant_memory && c.shuffle
                     ? "The order must be that of the permutation by seed + epoch"
                     : "The order must be that of randperm(length, seed + epoch)",
                 {{.row = row, .expected = by_rank(right), .explanations = [&] {
                     return usual_mistakes(right);
                   }}});
  }
  return out;
}

}  // namespace

Scenario partitions_the_dataset() {
  return scenario<Sampling>({
      .name = "sampler.partitions_the_dataset",
      .claim = "In every epoch the ranks draw disjoint shares that cover the dataset, in "
               "randperm's order.",
      .in_full =
          "In every epoch the ranks draw disjoint shares that cover the dataset, in the order "
          "of randperm(length, seed + epoch), or of the documented permutation where the "
          "order is not to be stored.",
      .exactness = "disjoint · covers · same order",
      .source = "torch.utils.data.DistributedSampler; docs/semantics.md, sampler",
      .not_covered = "resuming in mid-epoch, iterable datasets, datasets that differ between ranks",
      .usual_mistake = "set_epoch forgotten, or called on a copy of the sampler: every epoch has "
                       "the same order.",
      .tags = {"core", "sampler"},
      .must_catch = {"epoch_ignored", "permutation_ignores_its_seed",
                     "sampler_foretells_epoch_zero", "sampler_foretells_padding",
                     "sampler_pads_anyway", "sampler_seed_xor_epoch"},
      .draws = 70,
      .start = {},
      .every = every_small_one,
      .cases = cases(),
      .program = program,
      .checks = {samples_are_in_range, ranks_draw_equally_many, ranks_share_the_dataset,
                 order_is_that_of_seed_and_epoch},
      .labels = {{"three ranks and more", 0.4, has_three_ranks<Sampling>},
                 {"a length that the ranks do not divide", 0.4,
                  [](const Sampling& c) { return c.length % c.world.size != 0; }},
                 {"a loader", 0.1, [](const Sampling& c) { return c.through_loader; }},
                 {"samples that are dropped", 0.05,
                  [](const Sampling& c) { return c.drop_last && c.length % c.world.size != 0; }},
                 {"an order that is not stored", 0.05,
                  [](const Sampling& c) { return c.shuffle && c.constant_memory; }},
                 {"shares of different sizes", 0.05,
                  [](const Sampling& c) {
                    return !c.drop_last && !c.pad && c.length % c.world.size != 0;
                  }}},
  });
}

}  // namespace lockstep::scenarios::sampler_partitions_the_dataset
