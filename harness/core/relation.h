// How what the ranks hold relates to what was expected of them, read from the numbers alone.
//
// A relation is named only where every element of every rank that differs fits it within its bound,
// and where the relation moves at least one element far beyond that bound: noise inside wide bounds
// fits everything and shows nothing.
#pragma once

#include "harness/core/diagnose.h"

namespace lockstep {

struct Relation {
  std::string pattern;      // where every rank differs: "all_zero"
  std::string on_one_rank;  // where one rank of several differs: "one_rank_zero"; empty: no name
  std::string text;         // "every value is zero", true of each rank that differs
};

// The ranks that do not hold what was expected of them, in order.
std::vector<size_t> wrong_ranks(const Difference& difference);

// Whether `rank` holds `made` instead of what was expected of it; `magnified` is how much larger
// than its bound a mistake makes the error of an element.
bool holds(const Difference& difference, size_t rank, const std::vector<double>& made,
           double magnified = 1);

// The most specific relation that holds on every one of `wrong`, of which there is one at least.
// What each of them holds is of its expected dtype, shape and size; shapes may differ by rank.
std::optional<Relation> relation_of(const Difference& difference, const std::vector<size_t>& wrong);

}  // namespace lockstep
