#include "scenarios/join/own_sums.h"

#include "scenarios/cases/tensors.h"

#include <torch/torch.h>

namespace lockstep::scenarios::join {

namespace {

int64_t number_of(int sum, int step, int rank) {
  return (sum + 1) * 100 + step * 10 + rank + 1;
}

}  // namespace

void OwnSum::add(int step) {
  announce();
  totals_.push_back(summed(number_of(number_, step, here_.rank())));
}

void OwnSum::shadow() {
  summed(0);
  ++shadowed_;
}

void OwnSum::all_have_joined(int last_rank) {
  int64_t total = 0;
  for (const int64_t each : totals_) total += each;
  const auto sent = at::full({1}, total, at::kLong);
  collective(here_,
             {.kind = CollectiveKind::broadcast, .tensor = sent, .root = last_rank, .parts = {}});
  joined_ = {++joins_, last_rank, sent.item<int64_t>()};
}

void OwnSum::record() const {
  const auto name = "own sum " + std::to_string(number_);
  here_.record(name, totals_);
  here_.record(name + " shadowed", std::vector<int64_t>{shadowed_});
  here_.record(name + " at the end", joined_);
}

int64_t OwnSum::summed(int64_t number) const {
  const auto tensor = at::full({1}, number, at::kLong);
  collective(here_, {.kind = CollectiveKind::all_reduce, .tensor = tensor, .parts = {}});
  return tensor.item<int64_t>();
}

namespace {

int64_t sum_in(const Joined& c, int sum, int step) {
  int64_t total = 0;
  for (int rank = 0; rank < c.world.size; ++rank)
    if (step < inputs_of(c, rank)) total += number_of(sum, step, rank);
  return total;
}

// Returns explanations of the end that a program's own joinable has seen.
Explanations usual_ends(const Joined& c, int64_t total) {
  Explanations out{recorded_instead(
      {"never_ended", "nothing: no call reached it at the end of the join, when all have joined"},
      {int64_values({})})};
  for (int rank = 0; rank < c.world.size; ++rank)
    if (rank != last_to_join(c))
      out.push_back(recorded_instead(
          {"another_source",
           "rank " + std::to_string(rank) + " as the last to join, which it was not"},
          {int64_values({1, rank, total})}));
  return out;
}

}  // namespace

Findings own_sums_are_shadowed(const Joined& c, const History& h) {
  std::vector<Comparison> rows;
  for (int i = 0; i < c.own_sums; ++i) {
    const auto name = "own sum " + std::to_string(i);
    int64_t all = 0;
    for (int step = 0; step < joined_steps(c); ++step) all += sum_in(c, i, step);
    std::vector<TensorValue> totals, shadowed;
    for (int rank = 0; rank < c.world.size; ++rank) {
      std::vector<int64_t> own;
      for (int step = 0; step < inputs_of(c, rank); ++step) own.push_back(sum_in(c, i, step));
      totals.push_back(int64_values(own));
      shadowed.push_back(int64_values({joined_steps(c) - inputs_of(c, rank)}));
    }
    rows.push_back({.row = h.row({0, kJoined}, name), .expected = totals});
    rows.push_back({.row = h.row({0, kJoined}, name + " shadowed"), .expected = shadowed});
    rows.push_back({.row = h.row({0, kJoined}, name + " at the end"),
                    .expected = {int64_values({1, last_to_join(c), all})},
                    .explanations = [&c, all] { return usual_ends(c, all); }});
  }
  return equal(
      "What a program sends in a join must be shadowed by ranks without inputs, each call of it by "
      "its own, and end once on all ranks, with the last rank's",
      rows);
}

}  // namespace lockstep::scenarios::join
