// How many pairs of options the cases of a list cover. An option is a field that holds a truth or a
// word, or a list, which is empty or not; but for those of the world. A pair is a value of one and
// a value of another in one case.
#pragma once

#include "harness/cases/scenario.h"

#include <cstdint>
#include <map>
#include <set>

namespace lockstep {

class OptionPairs {
 public:
  explicit OptionPairs(const Scenario& scenario);

  // The options of one case.
  struct Values {
    std::vector<uint32_t> numbers;
    uint64_t on = 0;  // bit i: option i is not as in the smallest case; the first 64
  };

  // These are values that a case can have, from here on.
  Values values_of(const Case& c);

  // How many pairs a case with these values would add, and adds.
  int64_t gain(const Values& values) const;
  void cover(const Values& values);

  int64_t covered() const { return static_cast<int64_t>(covered_.size()); }

  // All that the values seen so far make. A scenario may exclude some.
  int64_t all() const;

 private:
  using Pair = std::pair<uint64_t, uint64_t>;
  template <class Each>
  void each_pair(const Values& values, const Each& each) const;

  struct Option {
    Json::json_pointer at;
    std::string smallest;                  // its value in the smallest case
    std::map<std::string, uint32_t> seen;  // its values, numbered
  };
  std::vector<Option> options_;
  std::set<Pair> covered_;
};

}  // namespace lockstep
