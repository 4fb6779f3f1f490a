// PyTorch's Python classes, found and loaded by the harness when a run wants them: from .venv-peer,
// which ./lockstep setup --peer makes. No torch.
#pragma once

#include <string>

namespace lockstep::pytorch {

// Why this program cannot use it, a sentence with the cure; empty: it can. As CMake found it, and
// as the files are now.
std::string why_not();

// Loads it, once in a process: seconds. Before anything forks, starts a thread or uses LibTorch. A
// process has one copy of LibTorch, which has to be PyTorch's own: where the loader took another
// one this starts the program anew, with the same arguments. Throws std::runtime_error.
void load();

// Call it before all else where a Python has loaded this program as a library: load() then uses
// that one, of the folder `environment`, and the PyTorch of the folder `torch`.
void be_hosted(const std::string& environment, const std::string& torch);

// Runs a user's file, for the parts that it defines; after load(), and before anything forks.
// Throws std::runtime_error, a sentence that says what is wrong with it.
void open(const std::string& file);

// Returns the loaded release, such as "2.11.0+cu130"; empty before load().
std::string version();

}  // namespace lockstep::pytorch
