// Calls in which one rank cannot take part, whatever its peers give, and why it says it cannot.
#pragma once

#include "harness/base/values.h"
#include "scenarios/collectives/arguments.h"

#include <functional>
#include <optional>
#include <string>

namespace lockstep::scenarios::collectives {

// `prepare` is called once on every rank; what it returns makes the call, as call_of() says.
struct Refused {
  std::function<std::function<void(bool has_another)>(RankContext& here)> prepare;
  std::string reason;  // as the sentence has it, from the name of the call on
  int rank = -1;       // that cannot take part; -1: the one with another argument
};

// Each returns nothing for an argument of another kind.
std::optional<Refused> refused_argument(const Disagreeing& c);
std::optional<Refused> refused_optimizer(const Disagreeing& c);
std::optional<Refused> refused_file(const Disagreeing& c);
std::optional<Refused> refused_pickle(const Disagreeing& c);

// Any of them.
std::optional<Refused> refused(const Disagreeing& c);

// The name of the record of what a rank holds after it has read a file, or could not, and what it
// must hold then; nothing where no file is read.
constexpr const char* kLoaded = "loaded";
TensorValue numbers_of_file(const Disagreeing& c, bool is_loaded);
TensorValue numbers_of_pickle(bool is_loaded);
std::optional<TensorValue> numbers_held(const Disagreeing& c, bool is_loaded);

}  // namespace lockstep::scenarios::collectives
