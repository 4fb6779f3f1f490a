// The whole command line, for Lockstep's own program and for others; cli/lockstep/harness.h is what
// users include.
#pragma once

#include "demos/lessons.h"
#include "harness/cases/scenario.h"
#include "harness/worlds/subjects.h"

#include <functional>
#include <vector>

namespace CLI {
class App;
}

namespace lockstep {

// A command of one program alone: adds itself to `app`; its callback sets `status`.
using OwnCommand = std::function<void(CLI::App& app, int& status)>;

// Call it first: no thread, no call of LibTorch before it. Returns the exit status
// (cli/exit_codes.h) and throws nothing. Scenarios tagged "canary" must fail: only full runs run
// them.
int main(int argc, char** argv, Subjects subjects, std::vector<Scenario> scenarios,
         Lessons lessons = {}, std::vector<OwnCommand> commands = {});

}  // namespace lockstep
