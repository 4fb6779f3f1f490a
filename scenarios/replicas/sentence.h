// Judges the sentence with which ranks refuse a Differing case.
#pragma once

#include "harness/verdict/diagnose.h"
#include "scenarios/replicas/agreement.h"

namespace lockstep::scenarios::replicas {

// Names what a sentence lacks, or names wrongly; the text says what was expected.
std::optional<Diagnosis> wrong_in_sentence(const Refusal& refusal, const std::string& sentence);

}  // namespace lockstep::scenarios::replicas
