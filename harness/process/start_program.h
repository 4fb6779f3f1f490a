// Starts other programs, or becomes one. The first of its words is its name for itself.
#pragma once

#include <string>
#include <vector>

namespace lockstep {

// Starts a program that nobody waits for, such as a viewer of a file: the first word, found in
// PATH; it has this process's streams and environment. Returns why it could not be started, or
// nothing.
std::string start_program(const std::vector<std::string>& words);

// Becomes `program`, a path or a name that is found in PATH. Returns only where it cannot: why.
std::string become_program(const std::string& program, std::vector<std::string> words);

// Puts `path` before what a variable of this process's environment lists, as PATH does: paths with
// colons between them. An empty variable lists none.
void put_first(const char* variable, const std::string& path);

}  // namespace lockstep
