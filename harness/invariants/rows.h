// The ranks' digests beside each other.
#pragma once

#include "harness/invariants/invariants.h"
#include "harness/recorded/divided.h"

namespace lockstep::recorded {

// The ranks' records of one list at one moment; the `repeat`-th time there, from 0.
struct Row {
  Moment at;
  std::string of;
  int repeat = 0;
  std::vector<const Digests*> by_rank;                     // null where a rank has no such record
  std::vector<std::shared_ptr<const Shards>> shards = {};  // of its tensors; empty: none is divided
  bool is_whole() const;                                   // every rank has one
  bool is_divided() const { return !shards.empty(); }
};

// All rows of a role, by step and phase, and within one in the order in which the ranks recorded
// them.
std::vector<Row> rows_of(const RecordedRun& run, std::string_view role);

// By step, and within a step in the order of its phases.
bool comes_before(const Moment& a, const Moment& b);

// Takes what is found if nothing is yet, or if it is earlier than what is.
void take_earlier(Judgement& judgement, std::optional<Found> found);

// "step 3, update", with the pass where it is not the step's first.
std::string place_of(const Row& row);

// A finding where ranks that recorded the row differ in it; nothing where all agree. `what` names
// the tensors: "parameters of model 0". Equal parts of divided tensors are compared.
std::optional<Finding> difference_in(const Row& row, const std::string& what);

// True if difference_in has something to compare: tensors that two ranks hold whole or in part.
bool has_comparison(const Row& row);

// "rank 0 has 0.1, rank 1 0.2", equal ranks together: "ranks 0, 2 have 0.1, rank 1 has 0.2".
std::string values_text(const std::vector<std::string>& by_rank);

bool all_alike(const std::vector<std::string>& texts);

// True if two numbers differ by more than sums that are taken in another order.
bool differ(double a, double b);

// The pattern of which ranks agree, of texts that are not all the same.
std::string agreement_pattern(const std::vector<std::string>& by_rank);

}  // namespace lockstep::recorded
