#include "cli/commands/shard.h"
#include "cli/main.h"
#include "demos/lessons.h"
#include "scenarios/catalogue.h"
#include "scenarios/subjects/subjects.h"

int main(int argc, char** argv) {
  return lockstep::main(argc, argv, lockstep::built_in_subjects(), lockstep::catalogue(),
                        lockstep::lessons(), {lockstep::cli::add_shard});
}
