// A demonstration: a small case that is run in a real world, and pictures of what its ranks
// recorded. Nothing is drawn that did not happen: every number and sentence that a demonstration
// shows is a function of the history, beside the reference's. Its checks judge the same history.
#pragma once

#include "harness/cases/scenario.h"
#include "reports/pictures/picture.h"

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace lockstep {

// A value that the viewer can set.
struct DemoSetting {
  Leaf leaf;  // its path is its name
  std::string meaning;
  std::string otherwise;  // its default
};

// A usual mistake that can be planted in the program.
struct DemoMistake {
  std::string name, meaning;
};

// A question that the viewer may answer before the demonstration shows it.
struct DemoQuestion {
  std::string text, answer, why;
};

struct DemoStory {
  std::string finding;                               // the first line: one sentence
  std::vector<reports::Picture> pictures;            // of the terminal and of the page
  std::vector<reports::Picture> page_pictures = {};  // of the page alone
  std::optional<DemoQuestion> question = {};
};

struct Demo {
  std::string name;
  std::string lesson;          // what it shows, in half a line
  std::string text;            // what the viewer sees, in a few sentences
  std::string condition = "";  // of a belief: when it is true
  std::string proof;           // the scenario that proves it for all cases; empty: none does
  std::vector<DemoSetting> settings;
  std::vector<DemoMistake> mistakes;
  bool in_virtual_time = false;        // it shows times, which simulated worlds alone repeat
  bool shows_a_hang = false;           // without a mistake: then its checks judge how ranks end
  std::vector<std::string> next = {};  // demonstrations to see after it
  Scenario scenario;                   // its program and its checks; it has no cases of its own

  // The scenario as a case with this mistake is judged by; "": with none.
  Scenario judged_with(const std::string& mistake) const {
    auto judged = scenario;
    judged.judges_endings = judged.judges_endings || (shows_a_hang && mistake.empty());
    return judged;
  }

  // The case with these settings and with a mistake; "": with none. Throws FieldError, a sentence
  // for the viewer: a name that is none, a value that is not allowed.
  using Values = std::vector<std::pair<std::string, std::string>>;
  std::function<Case(const Values& values, const std::string& mistake)> case_of;

  // Every setting of a case with its value, as JSON.
  std::function<Values(const Case& c)> values_of;

  // Throws NotSeen where a rank did not record what is shown.
  std::function<DemoStory(const Case& c, const History& history)> show;
};

}  // namespace lockstep
