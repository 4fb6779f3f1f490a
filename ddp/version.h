#pragma once

#include <string>

namespace lockstep {

// This library's version, such as "0.1.0". Ranks compare it in the rendezvous. Local.
std::string version();

}  // namespace lockstep
