// The consequences of a case as a whole: see follow.cpp for a step.
#include "scenarios/errors/follow.h"

#include <algorithm>

namespace lockstep::scenarios::errors {

namespace {

// Ranks that leave out a step do each later one with their peers' step before it: until there all
// is well, and later gradients are averages of different steps.
std::vector<Followed> out_of_step(const Erring& c) {
  auto before = c;
  before.mistake = {};
  before.lacks.clear();
  auto all = follow(before);
  for (int s = c.mistake.step % c.steps; s < c.steps; ++s) {
    auto& step = all[static_cast<size_t>(s)];
    step.are_judged = false;
    for (int r = 0; r < c.world.size; ++r)
      step.errors[static_cast<size_t>(r)] = error_out_of_step(c, s, r);
  }
  return all;
}

}  // namespace

std::vector<Followed> follow(const Erring& c, const std::vector<bool>& late) {
  return goes_out_of_step(c) ? out_of_step(c) : follow_in_step(c, late);
}

bool writes_into_what_travels(const Erring& c) {
  if (!c.options.gradient_as_bucket_view) return false;
  const auto is_of_arrival = [](const std::string& text) {
    return text.find("' came ") != std::string::npos;
  };
  for (const bool is_late : {false, true})
    for (const auto& step : follow(c, std::vector<bool>(static_cast<size_t>(c.steps), is_late)))
      for (const auto& expected : step.errors)
        for (const auto* const texts : {&expected.states, &expected.words})
          if (std::any_of(texts->begin(), texts->end(), is_of_arrival)) return true;
  return false;
}

}  // namespace lockstep::scenarios::errors
