#include "cli/commands/commands.h"
#include "cli/commands/words.h"
#include "cli/exit_codes.h"
#include "cli/known.h"
#include "cli/output/worked_example.h"
#include "cli/print.h"
#include "cli/run/selection.h"
#include "cli/usage.h"
#include "harness/base/text.h"
#include "harness/cases/draw.h"
#include "harness/cases/schema.h"
#include "harness/cases/shown_fields.h"
#include "harness/invariants/invariants.h"
#include "harness/invariants/symptoms.h"

#include <algorithm>
#include <cctype>
#include <cmath>

namespace lockstep::cli {

namespace {

constexpr size_t kColumns = 102;

// " label text", broken at blanks; nothing for an empty text.
void print_part(const std::string& label, const std::string& text) {
  if (text.empty()) return;
  print("  " + label + std::string(16 - label.size(), ' ') + text + "\n", kColumns);
}

// With blanks, at which a line can be broken.
std::string spaced(const std::string& json) {
  std::string text;
  bool in_string = false;
  for (size_t i = 0; i < json.size(); ++i) {
    text += json[i];
    if (json[i] == '"' && (i == 0 || json[i - 1] != '\\')) in_string = !in_string;
    if (!in_string && (json[i] == ',' || json[i] == ':')) text += ' ';
  }
  return text;
}

// The command that runs it.
std::string command_of(const Known& known, const Scenario& scenario) {
  return known.program + " run" +
         (has_tag(scenario, "canary") ? "   (part of every full run)" : " " + scenario.name);
}

// The demonstrations and beliefs that a scenario proves, and the others of its family.
std::string related(const Known& known, const Scenario& scenario) {
  std::vector<std::string> names;
  for (const auto* demos : {&known.demos, &known.beliefs})
    for (const auto& demo : *demos)
      if (demo.proof == scenario.name) names.push_back("demo " + demo.name);
  for (const auto& other : known.scenarios)
    if (other.name != scenario.name && family_of(other.name) == family_of(scenario.name) &&
        !has_tag(other, "canary"))
      names.push_back(other.name);
  return joined(names, ", ");
}

void print_example(const std::vector<std::string>& lines) {
  print_part("worked example", lines.front());
  for (size_t i = 1; i < lines.size(); ++i) print("                  " + lines[i] + "\n", kColumns);
}

int explain(const Known& known, const Scenario& scenario, SingleThreaded alone) {
  print(scenario.name + "\n");
  print_part("claim", scenario.claim);
  if (!scenario.in_full.empty()) print_part("in full", scenario.in_full);
  print_part("a pass means", scenario.exactness);
  print_part("source", scenario.source);
  print_part("usual mistake", scenario.usual_mistake);
  print_part("not covered", scenario.not_covered);
  print_part("must catch", joined(scenario.must_catch, ", "));
  print_part("smallest case", spaced(displayed_value(scenario, scenario.smallest()).dump()));
  for (const auto& [label, share] : scenario.required_shares)
    print_part(
        label == scenario.required_shares.front().label ? "must draw" : "",
        label + ", in " + std::to_string(std::lround(100 * share)) + " % of its drawn cases");
  if (!scenario.unused.empty()) print_part("does not use", joined(scenario.unused, ", "));
  print_example(worked_example(known, scenario, std::move(alone)));
  print_part("see also", related(known, scenario));
  print_part("run it", command_of(known, scenario));
  return kHeld;
}

int explain(const Known& known, const Demo& demo) {
  print(demo.name + "\n");
  print_part("shows", demo.lesson);
  print_part("what happens", demo.text);
  print_part("proof", demo.proof);
  print_part("run it", known.program + " demo " + demo.name);
  return kHeld;
}

// Prints the invariant of `judge`; returns false for another name.
bool explain_invariant(const Known& known, const std::string& name) {
  for (const auto& is : recorded::all_invariants()) {
    if (is.name != name) continue;
    print(name + "\n");
    print_part("invariant", std::string(is.rule));
    print_part("compares", std::string(is.compared));
    print_part("usual mistake", std::string(is.mistake));
    print_part("cure", std::string(is.cure));
    print_part("not covered", std::string(is.not_seen));
    print_part("allow it", known.program + " judge FOLDER --allow " + name);
    print_part("read", "docs/judge.md");
    return true;
  }
  return false;
}

// Prints the entry of that word; returns false where there is none.
bool explain_word(const std::string& name, const std::vector<Word>& words,
                  const std::string& heading, const std::string& page) {
  const auto* word = find_word(name, words);
  if (word == nullptr) return false;
  print(word->word + "\n");
  print_part(heading, word->means);
  print_part("read", page);
  return true;
}

const Demo* find_demo(const Known& known, const std::string& name) {
  for (const auto* demos : {&known.demos, &known.beliefs})
    for (const auto& demo : *demos)
      if (demo.name == name) return &demo;
  return nullptr;
}

std::string lower(std::string text) {
  for (char& each : text) each = static_cast<char>(std::tolower(static_cast<unsigned char>(each)));
  return text;
}

// Whether a text holds every one of these words, as words or as their beginnings.
bool holds_all(const std::string& text, const std::vector<std::string>& words) {
  const auto in = lower(text);
  const auto begins_word = [&](const std::string& word) {
    for (auto at = in.find(word); at != std::string::npos; at = in.find(word, at + 1))
      if (at == 0 || !std::isalnum(static_cast<unsigned char>(in[at - 1]))) return true;
    return false;
  };
  return std::all_of(words.begin(), words.end(), begins_word);
}

// Names, claims, tags and texts of what is known that hold all words of `text`; false: nothing
// does.
bool search(const Known& known, const std::string& text) {
  std::vector<std::string> words;
  for (const auto& word : split(lower(text), ' '))
    if (!word.empty()) words.push_back(word);
  if (words.empty()) return false;
  std::vector<std::pair<std::string, std::string>> found;  // what to explain, and its claim
  for (const auto& scenario : known.scenarios)
    if (holds_all(joined({scenario.name, scenario.claim, scenario.in_full, scenario.source,
                          scenario.usual_mistake, joined(scenario.tags, " "),
                          joined(scenario.must_catch, " ")},
                         " "),
                  words))
      found.emplace_back(scenario.name, scenario.claim);
  for (const auto* demos : {&known.demos, &known.beliefs})
    for (const auto& demo : *demos)
      if (holds_all(joined({demo.name, demo.lesson, demo.text}, " "), words))
        found.emplace_back(demo.name, demo.lesson);
  for (const auto& is : recorded::all_invariants())
    if (holds_all(
            joined({std::string(is.name), std::string(is.compared), std::string(is.mistake)}, " "),
            words))
      found.emplace_back(std::string(is.name) + " (judge)", std::string(is.mistake));
  for (const auto& pattern : patterns())
    if (holds_all(pattern.word + " " + pattern.means, words))
      found.emplace_back(pattern.word + " (a pattern)", pattern.means);
  for (const auto& is : recorded::symptoms())
    if (holds_all(joined({std::string(is.words), std::string(is.answer)}, " "), words))
      found.emplace_back(std::string(is.about), std::string(is.answer));
  const auto* explained = find_word(text, glossary());
  for (const auto& entry : glossary())
    if (&entry != explained && holds_all(entry.word, words))
      found.emplace_back(entry.word + " (a word)", entry.means);
  for (const auto& [name, claim] : found) print(name + "\n    " + claim + "\n", kColumns);
  return !found.empty();
}

}  // namespace

void add_explain(CLI::App& app, const Known& known, SingleThreaded& alone, int& status) {
  auto* command = app.add_subcommand(
      "explain",
      "what a scenario checks, its source, the usual mistake, its smallest case; or a "
      "search for words");
  struct Flags {
    std::string name;
    bool shows_case = false, shows_schema = false;
  };
  const auto flags = std::make_shared<Flags>();
  command
      ->add_option("NAME", flags->name,
                   "a scenario, or the beginning of its name; a demonstration, an invariant or "
                   "pattern of judge, a word of the glossary; or words and tags")
      ->required()
      ->type_name("");
  command->add_flag("--case", flags->shows_case,
                    "print its smallest case with every field, as a file that replay takes");
  command->add_flag("--schema", flags->shows_schema, "print the JSON schema of its case files");
  command->callback([flags, &known, &alone, &status] {
    if (flags->shows_case && flags->shows_schema)
      throw UsageError("--case and --schema exclude each other");
    const bool is_file = flags->shows_case || flags->shows_schema;
    const bool begins_a_name =
        std::any_of(known.scenarios.begin(), known.scenarios.end(),
                    [&](const auto& each) { return each.name.starts_with(flags->name); });
    if (!is_file && (explain_invariant(known, flags->name) ||
                     explain_word(flags->name, patterns(), "what is seen", "docs/patterns.md"))) {
      status = kHeld;
      return;
    }
    if (!is_file && !begins_a_name) {
      const auto* demo = find_demo(known, flags->name);
      if (demo != nullptr) {
        status = explain(known, *demo);
        return;
      }
      const bool is_word = explain_word(flags->name, glossary(), "means", "docs/glossary.md");
      if (search(known, flags->name) || is_word) {
        status = kHeld;
        return;
      }
    }
    const auto& scenario = scenario_named(known.scenarios, flags->name);
    if (flags->shows_case) print(case_file({.c = scenario.smallest()}));
    if (flags->shows_schema) print(schema_of_case_file(scenario).dump(2) + "\n");
    status = is_file ? kHeld : explain(known, scenario, std::move(alone));
  });
}

}  // namespace lockstep::cli
