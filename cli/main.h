// The whole command line, for Lockstep's own program and for a user's.
//
//   int main(int argc, char** argv) {
//     return lockstep::main(argc, argv, Subjects{my_subject()}, lockstep::catalogue());
//   }
#pragma once

#include "demos/lessons.h"
#include "harness/core/scenario.h"
#include "harness/worlds/subjects.h"

#include <vector>

namespace lockstep {

// Call it first: no thread, no call of LibTorch before it. Returns the exit status
// (cli/exit_codes.h) and throws nothing. Scenarios tagged "canary" must fail: only full runs run
// them.
int main(int argc, char** argv, Subjects subjects, std::vector<Scenario> scenarios,
         Lessons lessons = {});

}  // namespace lockstep
