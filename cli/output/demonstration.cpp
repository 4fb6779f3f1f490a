#include "cli/output/demonstration.h"

#include "harness/base/characters.h"
#include "harness/base/text.h"
#include "reports/findings/text.h"
#include "reports/fit.h"
#include "reports/pictures/page.h"
#include "reports/pictures/text.h"
#include "reports/story.h"
#include "reports/terminal.h"

#include <algorithm>

namespace lockstep::cli {

namespace {

using reports::fitted;

std::string lines_of(const std::string& sentence, const reports::Style& style,
                     bool is_bold = false) {
  std::string out;
  for (const auto& line : fitted({reports::shown(sentence, style)}, style))
    out += (is_bold ? reports::coloured(line, reports::Colour::bold, style) : line) + "\n";
  return out;
}

// "from 1 to 8", "sum or max or min", "true or false".
std::string allowed_text(const Leaf& leaf) {
  const auto& allowed = leaf.allowed;
  const std::string of_each = leaf.type == Leaf::Type::list ? "a list, each " : "";
  if (leaf.type == Leaf::Type::truth) return "true or false";
  if (!allowed.choices.empty())
    return of_each + joined({allowed.choices.begin(), allowed.choices.end()}, " or ");
  return of_each + "from " + with_commas(allowed.least) + " to " + with_commas(allowed.most);
}

std::string meaning_of(const Demo& demo, const std::string& mistake) {
  for (const auto& each : demo.mistakes)
    if (each.name == mistake) return each.meaning;
  return "";
}

std::string planted(const Demonstration& shown) {
  return shown.mistake.empty() ? "" : "Planted: " + meaning_of(shown.demo, shown.mistake) + ".";
}

// Stands before the story that the checks tell.
std::string judgement(const Demonstration& shown) {
  if (shown.result.kind != Result::Kind::pass) return "The checks say:";
  return shown.mistake.empty() ? ""
                               : "With these settings the mistake changes nothing that is checked.";
}

std::string values_text(const Demonstration& shown) {
  std::vector<std::string> parts;
  for (const auto& [name, value] : shown.demo.values_of(shown.c))
    parts.push_back(name + " " + value);
  return joined(parts, " · ");
}

// Where to go from here.
std::string footer(const Demonstration& shown, const Known& known, const reports::Style& style) {
  // A command stays whole, so that it can be copied.
  const auto command = [&](const std::string& label, const std::string& words) {
    return reports::shown("  " + label + shell_word(known.program) + words, style) + "\n";
  };
  std::string out = lines_of("  settings  " + values_text(shown), style);
  out += command("explained ", " demo " + shown.demo.name + " --settings");
  for (const auto& mistake : shown.demo.mistakes)
    if (mistake.name != shown.mistake)
      out += lines_of("  mistake   --wrong " + mistake.name + ": " + mistake.meaning, style);
  if (!shown.demo.proof.empty()) out += command("proof     ", " run " + shown.demo.proof);
  for (const auto& name : shown.demo.next) out += command("next      ", " demo " + name);
  return out;
}

}  // namespace

std::string list_text(const Known& known) {
  std::vector<std::vector<std::string>> lines;
  for (const auto& demo : known.demos)
    lines.push_back({std::to_string(lines.size() + 1) + ". " + demo.name, demo.lesson});
  return joined(reports::in_columns(lines), "\n") + "\n";
}

std::string beliefs_text(const Known& known) {
  // The condition without what explains it.
  const auto short_form = [](const std::string& condition) {
    return condition.substr(0, condition.find_first_of(":;"));
  };
  std::vector<std::vector<std::string>> lines;
  for (const auto& belief : known.beliefs) {
    lines.push_back({belief.name, belief.lesson});
    lines.push_back({"", "true when " + short_form(belief.condition)});
    lines.push_back({"", belief.proof.empty() ? "shown alone" : "proved by run " + belief.proof});
  }
  return joined(reports::in_columns(lines), "\n") + "\n";
}

std::string settings_text(const Demo& demo, const std::string& program) {
  std::vector<std::vector<std::string>> lines;
  for (const auto& setting : demo.settings)
    lines.push_back({"--set " + setting.leaf.path + "=" + setting.otherwise,
                     setting.meaning + "; " + allowed_text(setting.leaf)});
  for (const auto& mistake : demo.mistakes)
    lines.push_back({"--wrong " + mistake.name, mistake.meaning});
  return shell_word(program) + " demo " + demo.name + ": " + demo.lesson + "\n  " +
         joined(reports::in_columns(lines), "\n  ") + "\n";
}

std::string demonstration_text(const Demonstration& shown, const Known& known,
                               const reports::Style& style) {
  std::string out;
  out += lines_of(shown.story ? shown.story->finding : reports::diagnosis_of(shown.result), style,
                  /*is_bold=*/true);
  if (!shown.mistake.empty()) out += lines_of(planted(shown), style);
  out += "\n" + lines_of(shown.demo.text, style) + "\n";
  if (shown.story)
    for (const auto& picture : shown.story->pictures)
      out += reports::text_of(picture, style) + "\n";
  if (const auto sentence = judgement(shown); !sentence.empty()) out += lines_of(sentence, style);
  out += reports::story_text(shown.result, known.program, style);
  return out + footer(shown, known, style);
}

namespace {

std::string finding_of(const Demonstration& shown) {
  return shown.story ? shown.story->finding : reports::diagnosis_of(shown.result);
}

reports::PageRun page_run(const Demonstration& shown, const Known& known) {
  reports::PageRun run{.name = !shown.mistake.empty()    ? shown.mistake
                               : shown.demo.shows_a_hang ? "the hang, beside the right run"
                                                         : "without a mistake",
                       .text = planted(shown),
                       .finding = finding_of(shown),
                       .pictures = {},
                       .story = reports::story(shown.result, known.program),
                       .command = shown.command};
  if (!shown.story) return run;
  // The pictures of a page alone are the larger ones.
  run.pictures = shown.story->page_pictures;
  run.pictures.insert(run.pictures.end(), shown.story->pictures.begin(),
                      shown.story->pictures.end());
  return run;
}

std::vector<reports::PageLink> next_of(const Demo& demo, const Known& known,
                                       Neighbours neighbours) {
  const auto program = shell_word(known.program);
  std::vector<reports::PageLink> links;
  for (const auto& name : demo.next)
    for (const auto& other : known.demos)
      if (other.name == name)
        links.push_back({program + " demo " + name, other.lesson,
                         neighbours == Neighbours::beside ? page_name(other) : ""});
  links.push_back({program + " demo " + demo.name + " --guess",
                   "asks for a value before it shows it, and says why"});
  if (!demo.proof.empty())
    links.push_back({program + " run " + demo.proof, "proves it for all cases"});
  if (neighbours == Neighbours::beside)
    links.push_back({program + " demo", "all demonstrations", "index.html"});
  return links;
}

}  // namespace

std::string page_name(const Demo& demo) {
  return demo.name + ".html";
}

std::string demonstration_page(const Demonstration& shown, const std::vector<Demonstration>& others,
                               const Known& known, Neighbours neighbours) {
  const auto run = page_run(shown, known);
  reports::Page page{.title = "lockstep demo " + shown.demo.name,
                     .finding = run.finding,
                     .text = (run.text.empty() ? "" : run.text + " ") + shown.demo.text,
                     .pictures = run.pictures,
                     .story = run.story,
                     .settings = {{"setting", "value", "meaning", "allowed"}, {}},
                     .command = shown.command,
                     .name = run.name,
                     .next = next_of(shown.demo, known, neighbours)};
  for (const auto& other : others) page.others.push_back(page_run(other, known));
  const auto values = shown.demo.values_of(shown.c);
  for (size_t i = 0; i < values.size(); ++i) {
    const auto& setting = shown.demo.settings.at(i);
    page.settings.rows.push_back(
        {setting.leaf.path, values[i].second, setting.meaning, allowed_text(setting.leaf)});
  }
  return reports::page(page);
}

std::string site_index(const std::vector<Demonstration>& shown, const Known& known) {
  reports::Index index{.title = "Lockstep's demonstrations",
                       .text =
                           "Each page has the right run of a small case and its usual mistakes. "
                           "It works without a network.",
                       .groups = {{"Demonstrations, in the order of a course", {}},
                                  {"Beliefs, each true on a condition", {}}}};
  for (const auto& each : shown) {
    const bool is_belief = !each.demo.condition.empty();
    index.groups[is_belief ? 1 : 0].second.push_back(
        {each.demo.name, page_name(each.demo), each.demo.lesson,
         is_belief ? "True when " + each.demo.condition + "." : finding_of(each)});
  }
  index.text += " Made by " + shell_word(known.program) + " demo all.";
  return reports::page(index);
}

}  // namespace lockstep::cli
