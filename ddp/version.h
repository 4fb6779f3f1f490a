#pragma once

#include <string>

namespace lockstep {

// Of this library, such as "0.1.0". Ranks compare it when they meet. Local.
std::string version();

}  // namespace lockstep
