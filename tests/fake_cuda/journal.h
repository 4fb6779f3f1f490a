#pragma once

#include <string>

namespace lockstep::fake_cuda {

// Notes a call, a line each, in the file that LOCKSTEP_FAKE_CUDA_JOURNAL names; nowhere without it.
// A line is written whole before the call continues, so that it survives whatever ends the process:
// milliseconds since the first line, a word, its subject.
void note(const std::string& word, const std::string& about = "");

// A sentence on stderr, and the end of the process: what this library cannot replace.
[[noreturn]] void give_up(const std::string& sentence);

}  // namespace lockstep::fake_cuda
