// The C++ of docs/course, of which each page's block is a function's body.
#pragma once

namespace lockstep::course {

// Runs the code of one step on this rank of the world that a launcher has started. Throws
// std::out_of_range for a number that no step has.
void run_step(int number);

}  // namespace lockstep::course
