// The shape Saved: forwards whose graphs are kept, or not, and one backward through those that are.
#pragma once

#include "harness/base/case.h"
#include "harness/base/fields.h"

#include <vector>

namespace lockstep::scenarios::buffers_saved_values {

enum class Forward {
  train,
  evaluate,
  train_and_drop,
  evaluate_and_drop,
  train_in_no_sync,
  evaluate_in_no_sync,
};
enum class NormKind { batch, instance, own };

struct Saved {
  WorldSpec world;
  // In training or evaluation, and inside no_sync or not; graphs are kept, or dropped at once. The
  // last one is kept; empty: one in training.
  std::vector<Forward> forwards;
  NormKind norm = NormKind::batch;  // of LibTorch, or the subject's BatchNorm
  int axes = 2;                     // behind the channels
  uint64_t seed = 0;
  auto operator<=>(const Saved&) const = default;
  static constexpr auto fields() {
    return std::tuple{field("world", &Saved::world), field("forwards", &Saved::forwards),
                      field("norm", &Saved::norm), field("axes", &Saved::axes, between(1, 3)),
                      field("seed", &Saved::seed, {}, Cost::numbers)};
  }
};

inline std::vector<Forward> forwards_of(const Saved& c) {
  return c.forwards.empty() ? std::vector{Forward::train} : c.forwards;
}

inline bool is_kept(const Saved& c, size_t forward) {
  const auto all = forwards_of(c);
  return forward + 1 == all.size() || !word_of(all[forward]).ends_with("drop");
}

inline bool evaluates(Forward kind) {
  return word_of(kind).starts_with("evaluate");
}

inline bool is_local(Forward kind) {
  return word_of(kind).ends_with("no_sync");
}

}  // namespace lockstep::scenarios::buffers_saved_values
