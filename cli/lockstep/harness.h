// Judges data-parallel code of your own: component `harness` of the package, lockstep::harness.
//
//   #include "lockstep/harness.h"
//
//   int main(int argc, char** argv) {
//     return lockstep::main(argc, argv, {my_subject()});
//   }
//
// A lockstep::Subject is a value of optional parts; wrapping a model and sharding a dataset are two
// of them. docs/bring_your_own.md lists the headers that are public.
#pragma once

#include "harness/rank/rank_context.h"
#include "harness/worlds/subject.h"

#include <vector>

namespace lockstep {

// The program `lockstep` for these subjects, with the whole catalogue of scenarios: run, replay,
// explain, list, judge and the rest. --subject chooses among several; the first is the default.
//
// Call it first: no thread, no call of LibTorch before it. Returns the exit status, which --help
// explains, and throws nothing; one sentence and 2 where there is no subject, or one without a name
// of its own or without a part.
int main(int argc, char** argv, std::vector<Subject> subjects);

}  // namespace lockstep
