// The whole program as a library, for the package `lockstep`: its Python loads it and calls this.
#include "cli/whole_program.h"
#include "harness/pytorch/pytorch.h"

#include <cstdlib>

// Ends the process, with the program's exit code. `environment` is the folder of the environment
// that the Python is of, and `torch` that of its PyTorch. The caller has let go of the
// interpreter's lock.
extern "C" __attribute__((visibility("default"))) void lockstep_main(int argc, char** argv,
                                                                     const char* environment,
                                                                     const char* torch) {
  lockstep::pytorch::be_hosted(environment, torch);
  std::exit(lockstep::whole_program(argc, argv));
}
