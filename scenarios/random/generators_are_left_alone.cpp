// Nothing that data-parallel training does takes a number from a rank's generator, so that masks of
// dropout and augmentations are those that the rank would draw without it.
//
// Each rank seeds its generator with a number of its own, and after every act draws one number from
// it. The numbers must be those of a generator of that seed from which nobody else draws, but for
// the masks that the program itself wants. A part that seeds the generator, or draws from it, on
// one rank or on all, moves every number after it.
#include "harness/cases/generators.h"
#include "harness/rank/rank_context.h"
#include "harness/verdict/compare.h"
#include "harness/worlds/subject.h"
#include "reference/sampling.h"
#include "scenarios/cases/labels.h"
#include "scenarios/cases/tensors.h"
#include "scenarios/random/drawing.h"
#include "scenarios/random/splits.h"

#include <ATen/CPUGeneratorImpl.h>
#include <torch/torch.h>

#include <algorithm>

namespace lockstep::scenarios::random_generators_are_left_alone {
namespace {

using namespace random;

constexpr const char *kDrawn = "number drawn", *kMask = "mask", *kParts = "parts",
                     *kSizes = "sizes of parts";
constexpr int64_t kSize = 3;

uint64_t seed_of(const Drawing& c, int rank) {
  return c.seed * 1024 + static_cast<uint64_t>(rank);
}

class Product : public Model {
 public:
  Product() : weight_(register_parameter("w", torch::ones({kSize}, at::kDouble))) {}
  at::Tensor forward(const at::Tensor& input) override { return weight_ * input; }

 private:
  at::Tensor weight_;
};

struct Rank {
  explicit Rank(const Drawing& c, RankContext& here) : case_(c), here_(here) {
    wrap();
    sampler_ = shard(here, {.length = c.length, .shuffle = true, .batch_size = 2});
    if (here.rank() == 0) here.store()->set("folder", here.scratch().string());
    path_ = here.store()->get_to_str("folder") + "/checkpoint.pt";
  }

  void act(Act what) {
    if (what == Act::wrap) wrap();
    if (what == Act::step) backward();
    if (what == Act::local) replica_->no_sync([this] { backward(); });
    if (what == Act::mask)
      here_.record(kMask, at::bernoulli(torch::full({kSize}, 0.5, at::kDouble)));
    if (what == Act::epoch) epoch();
    if (what == Act::split) split();
    if (what == Act::sum)
      collective(here_, {.kind = CollectiveKind::all_reduce,
                         .tensor = torch::ones({1}, at::kDouble),
                         .parts = {}});
    if (what == Act::check) replica_->check_equal(/*with_buffers=*/true);
    if (what == Act::save) save();
    if (what == Act::load && is_saved_) checkpoints(here_).load(path_, here_.group(), state(), {});
  }

 private:
  void wrap() {
    model_ = std::make_shared<Product>();
    replica_ = lockstep::wrap(here_, model_, {});
  }
  void backward() {
    replica_->backward(replica_->forward(torch::ones({kSize}, at::kDouble)).sum());
  }
  void epoch() {
    sampler_->set_epoch(++epochs_);
    sampler_->draw();
  }
  void split() {
    std::vector<int64_t> sizes, all;
    try {
      const auto& shares = kSplits.at(static_cast<size_t>(case_.split));
      for (const auto& part : random_split(here_, case_.length, shares, case_.seed)) {
        sizes.push_back(static_cast<int64_t>(part.size()));
        all.insert(all.end(), part.begin(), part.end());
      }
    } catch (const Unsupported&) {
      throw;
    } catch (const std::exception&) {
      sizes = kRefused;
    }
    here_.record(kSizes, sizes);
    here_.record(kParts, all);
  }
  TrainingState state() { return {.model = model_.get(), .sampler = sampler_.get()}; }
  void save() {
    checkpoints(here_).save(path_, here_.group(), state(), {}, {});
    is_saved_ = true;
  }

  const Drawing& case_;
  RankContext& here_;
  std::shared_ptr<Product> model_;
  std::unique_ptr<Replica> replica_;
  std::unique_ptr<Shard> sampler_;
  std::string path_;
  int64_t epochs_ = 0;
  bool is_saved_ = false;
};

// The moment of an act; its step is its place.
constexpr const char* kAct = "act";

void program(const Drawing& c, RankContext& here) {
  torch::manual_seed(seed_of(c, here.rank()));
  Rank rank(c, here);
  for (size_t i = 0; i < c.acts.size(); ++i) {
    here.enter(static_cast<int>(i), kAct);
    rank.act(c.acts[i]);
    here.record(kDrawn, torch::rand({1}, at::kDouble));
  }
}

// The numbers that each rank's generator gives: by act, the number and, where the program draws
// one, the mask.
struct Numbers {
  std::vector<std::vector<TensorValue>> drawn, masks;  // [act][rank]
};

Numbers expected(const Drawing& c) {
  Numbers out{.drawn = {}, .masks = {}};
  std::vector<at::Generator> generators;
  for (int rank = 0; rank < c.world.size; ++rank)
    generators.push_back(at::detail::createCPUGenerator(seed_of(c, rank)));
  for (const auto& act : c.acts) {
    auto& drawn = out.drawn.emplace_back();
    auto& masks = out.masks.emplace_back();
    for (auto& generator : generators) {
      if (act == Act::mask)
        masks.push_back(recorded(at::bernoulli(torch::full({kSize}, 0.5, at::kDouble), generator),
                                 at::kDouble));
      drawn.push_back(
          recorded(at::rand({1}, generator, at::TensorOptions(at::kDouble)), at::kDouble));
    }
  }
  return out;
}

Findings numbers_are_the_ranks_own(const Drawing& c, const History& h) {
  const auto right = expected(c);
  std::vector<Comparison> rows;
  for (size_t i = 0; i < c.acts.size(); ++i) {
    const Moment at{static_cast<int>(i), kAct};
    if (c.acts[i] == Act::mask)
      rows.push_back({.row = h.row(at, kMask), .expected = right.masks[i]});
    rows.push_back({.row = h.row(at, kDrawn), .expected = right.drawn[i]});
  }
  return equal("Each rank must draw the numbers of a generator from which nobody else draws", rows);
}

Findings splits_are_the_same(const Drawing& c, const History& h) {
  const auto sizes = sizes_of_parts(c.split, c.length);
  const auto order =
      sizes == kRefused ? std::vector<int64_t>() : reference::permutation(c.length, c.seed);
  std::vector<Comparison> rows;
  for (size_t i = 0; i < c.acts.size(); ++i) {
    if (c.acts[i] != Act::split) continue;
    const Moment at{static_cast<int>(i), kAct};
    auto taken = wrong_shares_taken(c.split, c.length, h.row(at, kSizes));
    if (!taken.empty()) return taken;
    rows.push_back({.row = h.row(at, kSizes), .expected = {int64_values(sizes)}});
    rows.push_back({.row = h.row(at, kParts), .expected = {int64_values(order)}});
  }
  return equal("Every rank must split the dataset alike, and refuse shares that are no whole",
               rows);
}

std::vector<Drawing> every_small_one() {
  std::vector<Drawing> all;
  for (const auto act : {Act::wrap, Act::step, Act::local, Act::mask, Act::epoch, Act::split,
                         Act::sum, Act::check, Act::save})
    all.push_back({.world = {.size = 2}, .acts = {act}, .length = 5, .seed = 1});
  for (const int length : {0, 5})
    all.push_back(
        {.world = {.size = 2}, .acts = {Act::save, Act::load}, .length = length, .seed = 1});
  for (size_t split = 1; split < kSplits.size(); ++split)
    all.push_back({.world = {.size = 2},
                   .acts = {Act::split},
                   .length = split == kSplitThatRounds ? 100 : 5,
                   .split = static_cast<int>(split),
                   .seed = 1});
  return all;
}

rc::Gen<Drawing> cases() {
  using gen::set;
  using rc::gen::element;
  using rc::gen::inRange;
  const auto act = element(Act::wrap, Act::step, Act::step, Act::local, Act::mask, Act::mask,
                           Act::epoch, Act::split, Act::sum, Act::check, Act::save, Act::load);
  return gen::build<Drawing>(
      set(&Drawing::world, gen::build<WorldSpec>(set(&WorldSpec::size, element(2, 3, 3, 4, 5)))),
      set(&Drawing::acts, gen::lists(3, 12, act)), set(&Drawing::length, inRange<int64_t>(1, 30)),
      set(&Drawing::split, inRange(0, static_cast<int>(kSplits.size()))),
      set(&Drawing::seed, inRange<uint64_t>(0, 1 << 20)));
}

std::string why_nothing_is_drawn(const Drawing& c) {
  return c.acts.empty() ? "ranks draw numbers after acts, and there is none" : "";
}

bool has(const Drawing& c, Act act) {
  return std::find(c.acts.begin(), c.acts.end(), act) != c.acts.end();
}

}  // namespace

Scenario generators_are_left_alone() {
  return scenario<Drawing>({
      .name = "random.generators_are_left_alone",
      .claim = "Wrapping, training, sampling, splitting and saving take no number from a rank's "
               "generator.",
      .in_full =
          "Wrapping, training, sampling, splitting, checking and saving take no number from a "
          "rank's generator, and every rank splits a dataset alike.",
      .exactness = "bit-equal",
      .source = "docs/semantics.md 4; torch.utils.data.random_split",
      .not_covered = "generators of devices, what a communication hook draws",
      .usual_mistake = "seeding the global generator for a shuffle: from there on all ranks draw "
                       "the same masks.",
      .tags = {"random", "sampler", "checkpoint"},
      .must_catch = {"sampler_draws_from_the_global_generator",
                     "sampler_of_no_samples_is_not_loaded", "split_computes_shares_in_float32",
                     "split_draws_from_the_global_generator", "split_gives_the_rest_to_one_part",
                     "split_leaves_samples_out", "split_takes_shares_above_one",
                     "split_takes_shares_that_are_no_whole", "wrapping_seeds_the_rank"},
      .draws = 60,
      .start = {.world = {.size = 2}, .acts = {Act::mask}},
      .every = every_small_one,
      .cases = cases(),
      .precondition = why_nothing_is_drawn,
      .program = program,
      .checks = {numbers_are_the_ranks_own, splits_are_the_same},
      .labels = {{"three ranks and more", 0.5, has_three_ranks<Drawing>},
                 {"a mask", 0.2, [](const Drawing& c) { return has(c, Act::mask); }},
                 {"an epoch", 0.2, [](const Drawing& c) { return has(c, Act::epoch); }},
                 {"a checkpoint", 0.2, [](const Drawing& c) { return has(c, Act::save); }},
                 {"a split", 0.2, [](const Drawing& c) { return has(c, Act::split); }},
                 {"shares that are no whole", 0.02,
                  [](const Drawing& c) {
                    return has(c, Act::split) && sizes_of_parts(c.split, c.length) == kRefused;
                  }},
                 {"shares that leave a rest", 0.03,
                  [](const Drawing& c) {
                    return has(c, Act::split) && c.split < 3 && c.length % 8 != 0;
                  }}},
  });
}

}  // namespace lockstep::scenarios::random_generators_are_left_alone
