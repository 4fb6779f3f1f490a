// A page of Markdown that sets the verdicts of several subjects on each claim side by side.
#pragma once

#include "harness/cases/result.h"

#include <string>
#include <vector>

namespace lockstep::reports {

// A place where Lockstep differs from PyTorch on purpose.
struct Difference {
  std::string number, title;           // in docs/semantics.md 0
  std::vector<std::string> scenarios;  // that judge it
  std::string instead;                 // where there are none: what judges it
};

struct MatrixPage {
  std::string command;  // that writes the page
  std::string folder;   // of its case files, as the page links to it
  std::vector<Difference> differences;
};

// Every scenario of the run has a row and every setting a column: "holds", "differs" with a link to
// the case that shows it, "refuses", or "–" where a subject does not have the part that is judged.
// A sentence on each that differs or refuses follows by setting, then a row for each difference.
std::string matrix_page(const Run& run, const MatrixPage& page);

}  // namespace lockstep::reports
