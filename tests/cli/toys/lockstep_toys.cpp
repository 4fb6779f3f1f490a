#include "cli/commands/shard.h"
#include "cli/main.h"
#include "tests/cli/toys/toys.h"

#include <cstdlib>

int main(int argc, char** argv) {
  using namespace lockstep;
  // Shares are judged for Lockstep's own subject alone.
  return lockstep::main(argc, argv, toys::subjects(std::getenv("TOYS_KINDS") ? "lockstep" : "toy"),
                        std::getenv("TOYS_CANARY_PASSES") ? toys::with_a_canary_that_passes()
                        : std::getenv("TOYS_CRATES")      ? toys::crates()
                        : std::getenv("TOYS_KINDS")       ? toys::kinds_of_cases()
                                                          : toys::scenarios(),
                        {}, {cli::add_shard});
}
