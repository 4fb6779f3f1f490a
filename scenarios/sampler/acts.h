// The shape Acts: what a program does with its sampler, one act after another, and what each act
// must draw.
#pragma once

#include "harness/base/case.h"
#include "harness/history/history.h"
#include "harness/worlds/options.h"

#include <vector>

namespace lockstep::scenarios {

// A program's act with its sampler; `amount` is a number of samples, an epoch or a dataset's size.
enum class ActKind {
  draw,     // draws at most `amount` samples of the pass
  begin,    // begins a pass
  resize,   // begins a pass over a dataset of `amount` samples
  epoch,    // sets the epoch `amount`
  copy,     // continues with a copy, as a data loader does
  turn,     // continues with the copy that was left last, if any, and leaves this one
  save,     // saves, to be loaded later
  save_at,  // saves, naming `amount` samples as used
  load,     // loads what was saved last into this sampler
  restart,  // loads what was saved last into a new sampler
  // Loads it into a new one that differs in number `amount`, counted cyclically, of seed, rank,
  // drop_last, pad, shuffle, number of ranks and constant_memory, which must refuse it, and drops
  // that one.
  reseed,
};

}  // namespace lockstep::scenarios

// As files have it.
template <>
constexpr std::string_view lockstep::words::word<lockstep::scenarios::ActKind::save_at>() {
  return "save at";
}

namespace lockstep::scenarios {

struct Act {
  ActKind act = ActKind::draw;
  int64_t amount = 1;
  auto operator<=>(const Act&) const = default;
  static constexpr auto fields() {
    return std::tuple{field("act", &Act::act),
                      field("amount", &Act::amount, between(0, 1'000'000))};
  }
};

struct Acts {
  WorldSpec world;
  std::vector<Act> acts;
  int64_t length = 1;
  bool shuffle = false;
  bool drop_last = false;
  bool pad = true;
  bool constant_memory = false;          // the shuffled order is computed place by place, where
  SampleOrder order = SampleOrder::own;  // it is the sampler's own
  bool from_group = false;
  bool allow_empty = true;  // off: the sampler refuses a dataset of no samples
  int64_t seed = 0;
  auto operator<=>(const Acts&) const = default;
  static constexpr auto fields() {
    return std::tuple{field("world", &Acts::world),
                      field("acts", &Acts::acts),
                      field("length", &Acts::length, between(0, 1'000'000)),
                      field("shuffle", &Acts::shuffle),
                      field("drop_last", &Acts::drop_last),
                      field("pad", &Acts::pad),
                      field("constant_memory", &Acts::constant_memory),
                      field("order", &Acts::order),
                      field("from_group", &Acts::from_group),
                      field("allow_empty", &Acts::allow_empty),
                      field("seed", &Acts::seed, between(0, 1LL << 62), Cost::numbers)};
  }
};

// True if the order is that of the permutation which is computed place by place.
inline bool is_computed(const Acts& c) {
  return c.constant_memory && c.shuffle && c.order == SampleOrder::own;
}

// The options of a case's sampler, and of one that a `reseed` makes on a rank, which differ in one.
ShardOptions options_of(const Acts& c);
ShardOptions others_of(const Acts& c, int64_t which, int rank);

using Samples = std::vector<int64_t>;

// The record of an act that was refused.
const Samples kRefused{-1};

// Mistakes that users meet, which explain a failure.
enum class SamplerMistake {
  none,
  position_lost,
  loaded_position_reset,
  loaded_epoch_kept,
  loaded_pass_repeats,
  loaded_position_overwritten,
  used_ignored
};

// The samples of each act by docs/semantics.md 4, by act, then by rank; with a mistake, the samples
// of a sampler that makes it.
std::vector<std::vector<TensorValue>> expected_samples(const Acts& c, SamplerMistake mistake);

}  // namespace lockstep::scenarios
