// Data-parallel training as a textbook has it, with one mistake planted: what scenarios must catch,
// whatever ddp/ does.
#pragma once

#include "harness/worlds/subject.h"

#include <string>
#include <vector>

namespace lockstep::scenarios {

// Called `fault`; without a mistake where that is "none". The faults are those of faulty.cpp, one
// or several: "sums+never broadcasts buffers".
Subject faulty_subject(const std::string& fault);

}  // namespace lockstep::scenarios
