// Lines of native stacks as a report shows them. Files keep the lines as they are.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

// "lockstep::Reducer::launch at launch.cpp:40": the line of a frame without its function's template
// arguments, parameters, return type and unnamed namespaces.
std::string short_frame(std::string_view line);

// The relevant frames of a stack, innermost first: the innermost frame whose function has a name,
// then those of files with lines, down to the function of the program (a scenario's, or main);
// without the frames of std and of raising a signal, each shortened. Where nothing is left, the
// innermost frame with a name.
std::vector<std::string> story_of_stack(const std::vector<std::string>& lines);

}  // namespace lockstep
