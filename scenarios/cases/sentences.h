// What a program is told where it errs.
#pragma once

#include <functional>
#include <string>

namespace lockstep::scenarios {

// The sentence that `act` throws, without a stack; empty if it ends well. Unsupported passes.
std::string error_of(const std::function<void()>& act);

}  // namespace lockstep::scenarios
