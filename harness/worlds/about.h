// Describes what this program runs on, for `doctor` and for the headline of a run. No torch.
#pragma once

#include <string>

namespace lockstep {

struct AboutTorch {
  std::string version;       // "2.11.0"
  std::string library;       // the libtorch_cpu that was loaded
  bool gloo = false;         // c10d was built with Gloo
  int intra_op_threads = 0;  // the default of a program that sets nothing
};

// Initialises LibTorch in this process: call it after lanes were made, or in a process for it
// alone.
AboutTorch about_torch();

// From here on LibTorch uses one thread for an operation, on every thread of this process. The
// runner judges that way: its lanes are its parallelism, and references must not depend on the
// number of cores. Call it after lanes were made.
void use_one_intra_op_thread();

}  // namespace lockstep
