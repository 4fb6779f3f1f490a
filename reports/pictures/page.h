// One HTML file that holds everything it shows: style, pictures, tables. It requests nothing, shows
// all of it without JavaScript, and follows the reader's choice of light or dark.
#pragma once

#include "reports/pictures/picture.h"

namespace lockstep::reports {

// One of several runs that a page shows: the right one, or one with a mistake.
struct PageRun {
  std::string name;     // "one_rank_skips"
  std::string text;     // what the mistake is; may be empty
  std::string finding;  // its first sentence
  std::vector<Picture> pictures;
  std::vector<std::string> story = {};  // of a mistake, as a terminal shows it; may be empty
  std::string command;                  // makes the same page again
};

// A command that a reader may try next, and its page where there is one beside this one.
struct PageLink {
  std::string command, meaning, address = "";
};

struct Page {
  std::string title;    // "lockstep demo sampler"
  std::string finding;  // its first sentence
  std::string text;     // what is shown, in a few sentences; may be empty
  std::vector<Picture> pictures;
  std::vector<std::string> story = {};
  DataTable settings = {};  // what it was made with
  std::string command;
  std::string name = "";             // of the run above, among the others
  std::vector<PageRun> others = {};  // with mistakes: a switch shows one run or all
  std::vector<PageLink> next = {};
};

std::string page(const Page& page);

// A list of pages in the same folder, in groups.
struct Index {
  struct Entry {
    std::string name, address, text, finding;
  };
  std::string title, text;
  std::vector<std::pair<std::string, std::vector<Entry>>> groups;  // by their titles
};

std::string page(const Index& index);

}  // namespace lockstep::reports
