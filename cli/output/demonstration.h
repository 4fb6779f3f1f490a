// A demonstration that ran, as text and as a page.
#pragma once

#include "cli/known.h"
#include "harness/cases/result.h"
#include "reports/style.h"

#include <optional>
#include <vector>

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

// Its page, with the same demonstration in other runs: with each mistake, and without one. With
// links to the pages of others where these are beside it.
enum class Neighbours { none, beside };
std::string demonstration_page(const Demonstration& shown, const std::vector<Demonstration>& others,
                               const Known& known, Neighbours neighbours = Neighbours::none);

// The first page of a site: those of the demonstrations and of the beliefs.
std::string site_index(const std::vector<Demonstration>& shown, const Known& known);

std::string page_name(const Demo& demo);  // "sampler.html"

}  // namespace lockstep::cli
