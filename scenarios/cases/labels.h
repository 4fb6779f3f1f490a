// Kinds of cases of which scenarios require a share among those that they draw.
#pragma once

#include "scenarios/cases/layer.h"
#include "scenarios/cases/stateful.h"
#include "scenarios/cases/training.h"

namespace lockstep::scenarios {

template <class C>
bool has_three_ranks(const C& c) {
  return c.world.size >= 3;
}

template <class C>
bool has_real_values(const C& c) {
  return c.values == Values::real;
}

// For lists with an element a rank, read cyclically: some ranks of the world differ.
bool differs_between_ranks(const std::vector<int>& list, int world_size);

// The ranks' parts of a batch are of unequal size; one of them is empty.
bool has_unequal_parts(const Training& c);
bool has_empty_part(const Training& c);

// The gradients do not fit one bucket.
bool has_several_buckets(const Training& c);

// A forward comes after one that was inside no_sync or had no gradients; the ranks' batches are of
// unequal size.
bool has_unsynchronised_forward(const Stateful& c);
bool has_unequal_batches(const Stateful& c);

// Three ranks and more, and ranks whose batches are of unequal size, with these shares.
std::vector<Label<Layer>> labels_of_batches(double three_ranks, double unequal_size);

// Those, and kinds of layers, inputs and numbers.
std::vector<Label<Layer>> labels_of_layers();

}  // namespace lockstep::scenarios
