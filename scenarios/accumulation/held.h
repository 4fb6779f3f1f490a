// The gradients that the ranks of a case hold, where the case chooses every gradient freely.
#pragma once

#include "harness/base/case.h"
#include "harness/history/history.h"
#include "harness/verdict/compare.h"
#include "harness/worlds/options.h"

#include <cstdint>
#include <vector>

namespace lockstep::scenarios {

inline constexpr int64_t kElements = 3;  // of the one parameter

// The numbers that backward number `index` adds on `rank`: whole numbers, multiples of `unit`.
std::vector<double> part(uint64_t seed, size_t index, int rank, int unit);

// A precondition: empty where averages over the ranks are exact, which `Held` needs.
std::string why_averages_round(const WorldSpec& world);

// The held gradients in float32. Exact where every part is a multiple of the number of ranks.
class Held {
 public:
  explicit Held(int world);

  void add(int rank, const std::vector<double>& part);
  Held averaged() const;
  std::vector<TensorValue> recorded() const;  // by rank

 private:
  std::vector<std::vector<double>> by_rank_;
};

// The comparison of what ranks recorded after a backward with what they hold then: if it is to be
// reduced the averages, which replace `held`, and otherwise `held`. Ranks that recorded the other
// of both are explained: by `reduced_wrongly`, or as not_reduced.
Comparison after_backward(const Row& row, Held& held, bool is_reduced,
                          const Diagnosis& reduced_wrongly);

}  // namespace lockstep::scenarios
