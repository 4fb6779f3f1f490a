// One HTML file that holds everything it shows: style, pictures, tables. It requests nothing, needs
// no JavaScript, and follows the reader's choice of light or dark.
#pragma once

#include "reports/pictures/picture.h"

namespace lockstep::reports {

struct Page {
  std::string title;    // "lockstep demo sampler"
  std::string finding;  // its first sentence
  std::string text;     // what is shown, in a few sentences; may be empty
  std::vector<Picture> pictures;
  std::vector<std::string> story = {};  // of a mistake, as a terminal shows it; may be empty
  DataTable settings = {};              // what it was made with
  std::string command;                  // makes the same page again
};

std::string page(const Page& page);

}  // namespace lockstep::reports
