// A demonstration that ran, as text and as a page.
#pragma once

#include "cli/known.h"
#include "harness/cases/result.h"
#include "reports/style.h"

namespace lockstep::cli {

// A demonstration with its case, the verdict on its history, and what that shows; no story where a
// rank did not record what is shown.
struct Demonstration {
  const Demo& demo;
  Case c;
  Result result;
  std::optional<DemoStory> story;
  std::string mistake;  // that was planted; empty: none
  std::string command;  // shows the same again
};

// "1. sampler   which samples ...", a line for each.
std::string list_text(const Known& known);

// "belief-1   the belief   the scenario that proves what is true of it", a line for each.
std::string beliefs_text(const Known& known);

// The settings and mistakes of a demonstration, with their meanings.
std::string settings_text(const Demo& demo, const std::string& program);

std::string demonstration_text(const Demonstration& shown, const Known& known,
                               const reports::Style& style);
std::string demonstration_page(const Demonstration& shown, const Known& known);

}  // namespace lockstep::cli
