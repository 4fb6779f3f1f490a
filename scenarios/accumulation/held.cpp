#include "scenarios/accumulation/held.h"

#include "harness/base/values.h"
#include "scenarios/cases/tensors.h"

#include <torch/torch.h>

#include <bit>

namespace lockstep::scenarios {

std::vector<double> part(uint64_t seed, size_t index, int rank, int unit) {
  std::vector<double> out;
  for (uint64_t element = 0; element < kElements; ++element)
    out.push_back(static_cast<double>(unit * whole_at({.seed = seed,
                                                       .stream = Stream::input,
                                                       .rank = static_cast<uint64_t>(rank),
                                                       .step = index,
                                                       .index = element},
                                                      7)));
  return out;
}

std::string why_averages_round(const WorldSpec& world) {
  return std::has_single_bit(static_cast<unsigned>(world.size))
             ? ""
             : "averages are exact in worlds that are powers of two alone";
}

Held::Held(int world) : by_rank_(static_cast<size_t>(world), std::vector<double>(kElements, 0.0)) {}

void Held::add(int rank, const std::vector<double>& part) {
  auto& mine = by_rank_[static_cast<size_t>(rank)];
  for (size_t element = 0; element < part.size(); ++element) mine[element] += part[element];
}

Held Held::averaged() const {
  auto out = *this;
  for (size_t element = 0; element < by_rank_.front().size(); ++element) {
    double sum = 0;
    for (const auto& values : by_rank_) sum += values[element];
    for (auto& values : out.by_rank_) values[element] = sum / static_cast<double>(by_rank_.size());
  }
  return out;
}

std::vector<TensorValue> Held::recorded() const {
  std::vector<TensorValue> out;
  for (const auto& values : by_rank_)
    out.push_back(scenarios::recorded(torch::tensor(values, at::kDouble), at::kFloat));
  return out;
}

Comparison after_backward(const Row& row, Held& held, bool is_reduced,
                          const Diagnosis& reduced_wrongly) {
  const auto otherwise = is_reduced ? held : held.averaged();
  if (is_reduced) held = held.averaged();
  const Diagnosis diagnosis =
      is_reduced ? Diagnosis{"not_reduced",
                             "each rank holds its own gradient: this backward was not averaged"}
                 : reduced_wrongly;
  Comparison out{.row = row, .expected = held.recorded()};
  out.explanations = [otherwise, diagnosis] {
    return Explanations{recorded_instead(diagnosis, otherwise.recorded())};
  };
  return out;
}

}  // namespace lockstep::scenarios
