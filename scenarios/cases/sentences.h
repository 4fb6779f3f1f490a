// What a program is told where it errs.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace lockstep::scenarios {

// The sentence that `act` throws, without a stack; empty if it ends well. Unsupported passes.
std::string error_of(const std::function<void()>& act);

// "rank 1", "ranks 0 and 2", "ranks 0, 1 and 4".
std::string named(const std::vector<int>& ranks);

}  // namespace lockstep::scenarios
