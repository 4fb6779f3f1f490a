// Lockstep's own program, as an executable and as the library that a Python loads.
#pragma once

#include "cli/commands/shard.h"
#include "cli/main.h"
#include "demos/lessons.h"
#include "scenarios/catalogue.h"
#include "scenarios/subjects/subjects.h"

namespace lockstep {

inline int whole_program(int argc, char** argv) {
  return main(argc, argv, built_in_subjects(), catalogue(), lessons(), {cli::add_shard});
}

}  // namespace lockstep
