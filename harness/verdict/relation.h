// Relations between the ranks' values and their expected values, read from the numbers alone.
//
// A relation is named only where every element of every rank that differs fits it within its bound,
// and where the relation moves at least one element far beyond that bound: noise inside wide bounds
// fits everything and shows nothing. And every other wrong row of the same moment has to agree
// with it: a row of few elements fits many relations by chance. A factor needs three unlike numbers
// of all these rows that show it.
#pragma once

#include "harness/verdict/numbers.h"

namespace lockstep {

struct Relation {
  std::string pattern;      // where every rank differs: "all_zero"
  std::string on_one_rank;  // where one rank of several differs: "one_rank_zero"; empty: no name
  std::string text;         // "every value is zero", true of each rank that differs
  std::optional<double> factor = {}, shift = {};  // for relations that have one
};

// The most specific relation that holds on every one of the ranks of `wrong`, and in every row of
// `beside`.
std::optional<Relation> relation_of(const WrongRow& wrong, const std::vector<WrongRow>& beside);

}  // namespace lockstep
