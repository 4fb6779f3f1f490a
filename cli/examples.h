// Calls of the program that its help and its manual page show, before the exit codes. Without
// torch.
#pragma once

#include <string>

namespace lockstep::cli {

// "Examples:" and a line each; empty for a command that has none. "" is the program itself.
std::string examples_of(const std::string& command);

}  // namespace lockstep::cli
