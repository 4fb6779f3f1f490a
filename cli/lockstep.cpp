#include "cli/commands/shard.h"
#include "cli/main.h"
#include "demos/catalogue.h"
#include "scenarios/catalogue.h"
#include "scenarios/subjects/subjects.h"

int main(int argc, char** argv) {
  return lockstep::main(argc, argv, lockstep::built_in_subjects(), lockstep::catalogue(),
                        lockstep::demonstrations(), {lockstep::cli::add_shard});
}
