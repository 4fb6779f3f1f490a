// Training cases as programs of their own: their network, its values and batches.
#pragma once

#include "scenarios/cases/training.h"
#include "scenarios/standalone/python.h"

namespace lockstep::scenarios::standalone {

// The network, START (its values by rank), X and Y (inputs and cotangents by batch and rank) and
// loss(model, batch, rank); the program is still to be said. `passed_on` is the body of a function
// of Net through which the output of each branch goes: passed_on(self, branch, output); empty:
// none.
Python training_python(const Training& c, const std::string& passed_on = "");

// The optimizer of the case, as a statement that makes it.
std::string optimizer_statement(const Training& c);

// NAME = whether `is` holds, by step, rank and branch.
std::string switches_by_branch(const Training& c, const std::string& name,
                               bool (*is)(const Training&, int step, int rank, int branch));

// "wraps a network of 2 branches with a buffer"; "trains 3 steps".
std::string network_in_words(const Training& c);
std::string steps_in_words(int64_t steps);

}  // namespace lockstep::scenarios::standalone
