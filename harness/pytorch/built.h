// CMake found this of the subject pytorch.
#pragma once

#include <string>

namespace lockstep::pytorch {

struct Built {
  bool is_built = false;
  std::string why;          // what was missing, as a sentence
  std::string environment;  // the folder .venv-peer, or of the Python that hosts this process
  std::string torch;        // the folder in it that holds lib/libtorch_cpu.so
  std::string release;      // of PyTorch there, as the program was built: "2.11.0+cu130"
  std::string version;      // of the plugin that this program can use
  bool is_hosted = false;   // by a Python, which has loaded this program as a library
};
Built built();

// Why a program that was built so cannot use it, as the files are now; empty: it can.
std::string why_not(const Built& built);

}  // namespace lockstep::pytorch
