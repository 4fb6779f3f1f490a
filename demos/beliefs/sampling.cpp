// Beliefs of samplers, seeds and splits: 1, 2, 3, 4, 9 and 32.
#include "demos/beliefs/belief.h"
#include "demos/beliefs/beliefs.h"
#include "harness/base/text.h"
#include "harness/worlds/subject.h"
#include "reports/style.h"

#include <ATen/CPUGeneratorImpl.h>
#include <torch/torch.h>

#include <algorithm>
#include <numeric>
#include <set>

namespace lockstep::demos::beliefs {

namespace {

constexpr int64_t kSamples = 10, kManySamples = 1000;

bool divides_the_samples(int world) {
  return kSamples % world == 0;
}

// The next length that the world divides.
int64_t divisible(int world) {
  return (kSamples + world - 1) / world * world;
}

void record_draw(const Run& run, const ShardOptions& options) {
  run.record("length", static_cast<double>(options.length));
  run.record("drawn", shard(run.here(), options)->draw());
}

struct Drawn {
  size_t in_all = 0;
  std::set<double> distinct;
};
Drawn drawn_by_all(const Records& records, int step = 0) {
  Drawn out;
  for (int rank = 0; rank < records.world(); ++rank)
    for (const double sample : records.numbers(rank, "drawn", step)) {
      ++out.in_all;
      out.distinct.insert(sample);
    }
  return out;
}

std::string counts_of(const Records& records, const Drawn& drawn) {
  return std::to_string(drawn.in_all) + " drawn of " +
         reports::number_text(records.by_rank("length").front()) + ", " +
         std::to_string(drawn.distinct.size()) + " distinct";
}

void pads(const Run& run) {
  record_draw(run, {.length = run.is_met() ? divisible(run.world()) : kSamples, .shuffle = true});
}

Outcome draws_none_twice(const Records& records) {
  const auto drawn = drawn_by_all(records);
  return {drawn.in_all == drawn.distinct.size(),
          counts_of(records, drawn),
          {column("drawn", records, "drawn")}};
}

void drops(const Run& run) {
  record_draw(run, {.length = run.is_met() ? divisible(run.world()) : kSamples,
                    .shuffle = true,
                    .drop_last = true});
}

Outcome draws_each_once(const Records& records) {
  const auto drawn = drawn_by_all(records);
  const auto length = static_cast<size_t>(records.by_rank("length").front());
  return {drawn.in_all == length && drawn.distinct.size() == length,
          counts_of(records, drawn),
          {column("drawn", records, "drawn")}};
}

// Without the distributed sampler a rank goes through the whole dataset.
void forgets_the_epoch(const Run& run) {
  const auto sampler =
      run.is_met() ? nullptr : shard(run.here(), {.length = kSamples, .shuffle = true});
  for (int epoch = 0; epoch < 2; ++epoch) {
    run.enter(epoch);
    std::vector<int64_t> all(kSamples);
    std::iota(all.begin(), all.end(), 0);
    run.record("drawn", sampler ? sampler->draw() : all);
  }
}

Outcome ranks_see_the_same(const Records& records) {
  const auto of = [&](int rank, int epoch) { return records.numbers(rank, "drawn", epoch); };
  bool same = true, repeats = true;
  for (int rank = 0; rank < records.world(); ++rank) {
    auto own = of(rank, 0), first = of(0, 0);
    repeats = repeats && own == of(rank, 1);
    std::sort(own.begin(), own.end());
    std::sort(first.begin(), first.end());
    same = same && own == first;
  }
  return {same,
          std::string("the ranks draw ") + (same ? "the same" : "different") + " samples, and " +
              (repeats ? "both epochs have one order" : "the epochs have different orders"),
          {column("epoch 0", records, "drawn", 0), column("epoch 1", records, "drawn", 1)}};
}

// The numbers 0, 1, ... as a dataset.
class Numbers : public torch::data::datasets::BatchDataset<Numbers, std::vector<int64_t>> {
 public:
  std::vector<int64_t> get_batch(at::ArrayRef<size_t> indices) override {
    return {indices.begin(), indices.end()};
  }
  std::optional<size_t> size() const override { return kSamples; }
};

void sets_the_epoch(const Run& run) {
  torch::data::samplers::DistributedRandomSampler variable(
      kSamples, static_cast<size_t>(run.world()), static_cast<size_t>(run.rank()));
  // The loader takes the sampler by value.
  const auto loader =
      torch::data::make_data_loader(Numbers(), variable, torch::data::DataLoaderOptions(kSamples));
  const auto read =
      shard(run.here(), {.length = kSamples, .shuffle = true, .through_loader = true});
  for (int epoch = 0; epoch < 2; ++epoch) {
    run.enter(epoch);
    std::vector<int64_t> drawn;
    if (run.is_met()) {
      read->set_epoch(epoch);
      drawn = read->draw();
    } else {
      variable.set_epoch(static_cast<size_t>(epoch));
      for (const auto& batch : *loader) drawn.insert(drawn.end(), batch.begin(), batch.end());
    }
    run.record("drawn", drawn);
  }
}

Outcome epochs_have_different_orders(const Records& records) {
  bool differ = false;
  for (int rank = 0; rank < records.world(); ++rank)
    differ = differ || records.numbers(rank, "drawn", 0) != records.numbers(rank, "drawn", 1);
  return {differ,
          std::string("after set_epoch(1) the order is ") + (differ ? "another" : "the same"),
          {column("epoch 0", records, "drawn", 0), column("epoch 1", records, "drawn", 1)}};
}

// Shuffles with a seed of the rank's own, or draws a dropout mask with it.
void seeds_by_rank(const Run& run) {
  if (!run.is_met())
    return record_draw(run, {.length = kManySamples, .shuffle = true, .seed = run.rank()});
  constexpr int64_t kUnits = 8;
  const auto own = at::detail::createCPUGenerator(static_cast<uint64_t>(run.rank()));
  run.record("mask", torch::rand({kUnits}, own, at::kDouble).ge(0.5).to(at::kLong));
}

Outcome own_seeds_are_right(const Records& records) {
  if (records.has("drawn")) {
    const auto drawn = drawn_by_all(records);
    return {drawn.distinct.size() == kManySamples,
            counts_of(records, drawn),
            {column("drawn", records, "drawn")}};
  }
  std::set<std::vector<double>> masks;
  for (int rank = 0; rank < records.world(); ++rank) masks.insert(records.numbers(rank, "mask"));
  return {masks.size() == static_cast<size_t>(records.world()),
          counted(masks.size(), "different mask") + " on " + counted(records.world(), "rank"),
          {column("units kept", records, "mask")}};
}

void splits(const Run& run) {
  constexpr int64_t kAll = 100;
  const auto seed = run.is_met() ? 0 : static_cast<uint64_t>(run.rank());
  const auto parts = random_split(run.here(), kAll, {0.8, 0.2}, seed);
  run.record("training", parts.at(0));
  run.record("validation", parts.at(1));
}

Outcome nobody_trains_on_validation(const Records& records) {
  std::set<double> trained;
  for (int rank = 0; rank < records.world(); ++rank)
    for (const double sample : records.numbers(rank, "training")) trained.insert(sample);
  Outcome out{true, "", {column("validation", records, "validation"), {"trained on", {}}}};
  int64_t leaked = 0, all = 0;
  for (int rank = 0; rank < records.world(); ++rank) {
    const auto own = records.numbers(rank, "validation");
    const auto seen =
        std::count_if(own.begin(), own.end(), [&](double each) { return trained.contains(each); });
    out.columns[1].by_rank.push_back(std::to_string(seen) + " of " + std::to_string(own.size()));
    leaked += seen;
    all += static_cast<int64_t>(own.size());
  }
  out.holds = leaked == 0;
  out.fact = std::to_string(leaked) + " of the ranks' " + std::to_string(all) +
             " validation samples are trained on";
  return out;
}

}  // namespace

std::vector<Demo> of_sampling() {
  return {
      belief<4>({.number = 1,
                 .belief = "The distributed sampler never draws a sample twice",
                 .condition = "the number of samples is a multiple of W, or drop_last is set",
                 .text = "Each rank draws its part of a shuffled epoch.",
                 .unmet = "with 10 samples",
                 .met = "with the next multiple of W",
                 .program = pads,
                 .outcome = draws_none_twice,
                 .proof = "sampler.partitions_the_dataset",
                 .is_met_anyway = divides_the_samples}),
      belief<4>({.number = 2,
                 .belief = "drop_last makes an epoch exact",
                 .condition = "the number of samples is a multiple of W; N mod W samples are left "
                              "out otherwise",
                 .text = "Each rank draws its part of a shuffled epoch, with drop_last.",
                 .unmet = "with 10 samples",
                 .met = "with the next multiple of W",
                 .program = drops,
                 .outcome = draws_each_once,
                 .proof = "sampler.partitions_the_dataset",
                 .is_met_anyway = divides_the_samples}),
      belief({.number = 3,
              .belief = "Without set_epoch the ranks see the same data",
              .condition = "there is no distributed sampler; with one the ranks' parts are "
                           "disjoint, and it is the order that every epoch repeats",
              .text = "Each rank draws two epochs, and nobody calls set_epoch.",
              .unmet = "with a distributed sampler",
              .met = "where every rank goes through the whole dataset",
              .program = forgets_the_epoch,
              .outcome = ranks_see_the_same,
              .proof = "sampler.follows_its_program"}),
      belief({.number = 4,
              .belief = "Calling set_epoch is enough",
              .condition = "it reaches the very object that the loader reads, before the epoch "
                           "begins",
              .text = "A LibTorch data loader copies its sampler. The program calls set_epoch on "
                      "its own variable: LibTorch's DistributedRandomSampler in the first run, in "
                      "the second a sampler that shares its epoch with its copies.",
              .unmet = "where the loader reads a copy",
              .met = "where the copy shares the epoch",
              .program = sets_the_epoch,
              .outcome = epochs_have_different_orders,
              .proof = "sampler.follows_its_program"}),
      belief<4>({.number = 9,
                 .belief = "Give every rank another seed",
                 .condition = "it seeds dropout or augmentation, never the shuffle",
                 .text = "The seed is the rank: of a shuffle of 1,000 samples in the first run, of "
                         "a dropout mask in the second.",
                 .unmet = "for the shuffle",
                 .met = "for dropout",
                 .program = seeds_by_rank,
                 .outcome = own_seeds_are_right,
                 .proof = "sampler.partitions_the_dataset"}),
      belief<4>({.number = 32,
                 .belief = "An unseeded random split is harmless",
                 .condition = "all ranks split with one seed",
                 .text = "Each rank splits 100 samples into 80 for training and 20 for validation.",
                 .unmet = "where each rank draws its own split",
                 .met = "where all have one seed",
                 .program = splits,
                 .outcome = nobody_trains_on_validation})};
}

}  // namespace lockstep::demos::beliefs
