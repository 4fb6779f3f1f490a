// A case as a program of its own, which needs PyTorch and nothing of Lockstep: for a report
// upstream, and for a reader who wants to see the mistake in code.
#pragma once

#include "harness/cases/scenario.h"

namespace lockstep::scenarios::standalone {

// Why there is no such program of a case: a sentence.
struct NotWritten : std::runtime_error {
  using runtime_error::runtime_error;
};

// The program of a case in Python, with the claim and the case in its head. It prints what each
// rank holds beside one process, and exits 1 where they differ. Throws NotWritten.
std::string program_of(const Scenario& scenario, const Case& c);

// The program of a case's ranks in plain words: "wraps a network, one forward, one backward". Empty
// for a scenario that is not of the catalogue.
std::string in_words(const Case& c);

}  // namespace lockstep::scenarios::standalone
