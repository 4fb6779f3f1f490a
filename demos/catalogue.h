// Every demonstration, in the order of a course.
#pragma once

#include "demos/demo.h"

namespace lockstep {

std::vector<Demo> demonstrations();

}  // namespace lockstep
