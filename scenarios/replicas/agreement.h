// The sentences that ranks must state in a Differing case, from docs/semantics.md 2.7.
#pragma once

#include "scenarios/replicas/differing.h"

namespace lockstep::scenarios::replicas {

// Why the ranks of a case cannot train together.
struct Refusal {
  // The mistakes of each rank whose arguments cannot work: words of the reasons, one of which it
  // must state, all words of it. Empty lists for the others.
  std::vector<std::vector<std::vector<std::string>>> mistakes;

  // Where no rank has any: what differs first, and the ranks that have each value, in rank order.
  struct Value {
    std::string text;
    std::vector<int> ranks;
  };
  std::string subject;
  std::vector<Value> values;

  bool is_of_single_ranks() const { return subject.empty(); }
};

// Nothing where they can.
std::optional<Refusal> expected_refusal(const Differing& c);

// True if all ranks can train what they all have without the differences.
bool can_train(const Differing& c);

}  // namespace lockstep::scenarios::replicas
