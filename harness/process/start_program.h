// Starts a program that nobody waits for, such as a viewer of a file.
#pragma once

#include <string>
#include <vector>

namespace lockstep {

// The first word is the program, found in PATH; it has this process's streams and environment.
// Returns why it could not be started, or nothing.
std::string start_program(const std::vector<std::string>& words);

}  // namespace lockstep
