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
  size_t widest = 0;
  for (const auto& belief : known.beliefs) widest = std::max(widest, belief.lesson.size());
  std::vector<std::vector<std::string>> lines;
  for (const auto& belief : known.beliefs)
    lines.push_back({belief.name, belief.lesson + std::string(widest - belief.lesson.size(), ' '),
                     belief.proof.empty() ? "shown by itself alone" : belief.proof});
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

std::string demonstration_page(const Demonstration& shown, const Known& known) {
  reports::Page page{.title = "lockstep demo " + shown.demo.name,
                     .finding = reports::diagnosis_of(shown.result),
                     .text = shown.demo.text,
                     .pictures = {},
                     .story = reports::story(shown.result, known.program),
                     .settings = {{"setting", "value", "meaning", "allowed"}, {}},
                     .command = shown.command};
  if (shown.story) {
    page.finding = shown.story->finding;
    page.pictures = shown.story->pictures;
    page.pictures.insert(page.pictures.end(), shown.story->page_pictures.begin(),
                         shown.story->page_pictures.end());
  }
  if (!shown.mistake.empty()) page.text = planted(shown) + " " + page.text;
  const auto values = shown.demo.values_of(shown.c);
  for (size_t i = 0; i < values.size(); ++i) {
    const auto& setting = shown.demo.settings.at(i);
    page.settings.rows.push_back(
        {setting.leaf.path, values[i].second, setting.meaning, allowed_text(setting.leaf)});
  }
  return reports::page(page);
}

}  // namespace lockstep::cli
