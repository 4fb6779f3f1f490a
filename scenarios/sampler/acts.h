// The shape Acts: what a program does with its sampler, one act after another, and what each act
// must draw.
#pragma once

#include "harness/base/case.h"
#include "harness/history/history.h"

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
  reseed,   // loads it into a new one of another seed, which must refuse it, and drops that one
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
  int64_t seed = 0;
  auto operator<=>(const Acts&) const = default;
  static constexpr auto fields() {
    return std::tuple{field("world", &Acts::world),
                      field("acts", &Acts::acts),
                      field("length", &Acts::length, between(0, 1'000'000)),
                      field("shuffle", &Acts::shuffle),
                      field("drop_last", &Acts::drop_last),
                      field("pad", &Acts::pad),
                      field("seed", &Acts::seed, between(0, 1LL << 62), Cost::numbers)};
  }
};

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
