// `demo --guess`: the viewer answers before anything is shown.
#pragma once

#include "demos/demo.h"
#include "reports/style.h"

namespace lockstep::cli {

// Prints the question, reads a line, and prints the answer and why. "Yes." and "y" are yes, and 3.0
// is 3.
void ask(const DemoQuestion& question, const reports::Style& style);

}  // namespace lockstep::cli
