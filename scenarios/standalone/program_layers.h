// The models of a ProgramSpec in Python.
#pragma once

#include "scenarios/programs/actions.h"
#include "scenarios/standalone/python.h"

namespace lockstep::scenarios::standalone {

// The body of the class of the model, or of the list of models; and what it needs. Throw
// NotWritten.
std::string program_net(const programs::ProgramSpec& c);
std::string program_values(const programs::ProgramSpec& c);

// The inputs of the forward of an action, and the factors of its loss, by rank.
std::string program_inputs(const programs::ProgramSpec& c, const programs::Action& action);
std::string program_weights(const programs::ProgramSpec& c,
                            const std::vector<programs::Action>& actions,
                            const programs::Action& action);

}  // namespace lockstep::scenarios::standalone
