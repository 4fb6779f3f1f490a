#include "scenarios/standalone/standalone.h"

#include "harness/base/text.h"
#include "harness/cases/shown_fields.h"
#include "scenarios/standalone/family.h"

#include <sstream>

namespace lockstep::scenarios::standalone {

namespace {

constexpr size_t kLineColumns = 100;

const Family* family_of(const std::string& scenario) {
  static const Families all = [] {
    Families out;
    for (const auto& some :
         {accumulation(), buffers(), described(), errors(), evaluation(), joins(), loops(), norms(),
          programs(), replicas(), samplers(), trainings()})
      out.insert(out.end(), some.begin(), some.end());
    return out;
  }();
  for (const auto& each : all)
    if (each.scenario == scenario) return &each;
  return nullptr;
}

// The words of `text`, in lines that are not too long.
std::string paragraph(const std::string& text) {
  std::istringstream words(text);
  std::string out, line, word;
  while (words >> word) {
    if (!line.empty() && line.size() + 1 + word.size() > kLineColumns) {
      out += line + "\n";
      line.clear();
    }
    line += (line.empty() ? "" : " ") + word;
  }
  return out + line + "\n";
}

// "world {"size":2}, backwards [0,0]".
std::string fields_text(const Scenario& scenario, const Case& c) {
  std::vector<std::string> parts;
  const auto shown = unlike_default(scenario, c.value);
  for (const auto& [name, value] : shown.items()) parts.push_back(name + " " + value.dump());
  return parts.empty() ? "as by default" : joined(parts, ", ");
}

}  // namespace

std::string program_of(const Scenario& scenario, const Case& c) {
  if (const auto why = scenario.unmet_precondition(c); !why.empty())
    throw NotWritten("the claim is not about this case: " + why);
  const auto* const family = family_of(scenario.name);
  if (!family || !family->python)
    throw NotWritten("cases of " + scenario.name +
                     " are not written as programs of their own yet; replay runs them");
  const auto text = text_of(family->python(c.value));
  const auto ranks = std::to_string(world_size(c));
  const auto words = family->in_words(c.value);
  return "\"\"\"" + paragraph(scenario.name + ": " + scenario.claim) + "\n" +
         paragraph("Here: " + words + ". The case: " + fields_text(scenario, c) + ".") + "\n" +
         paragraph("Run it by: torchrun --standalone --nproc-per-node " + ranks + " FILE.py") +
         paragraph(
             "It prints what each rank holds beside one process that does what all ranks do, "
             "and exits 1 where they differ.") +
         "\"\"\"\n" + text;
}

std::string in_words(const Case& c) {
  const auto* const family = family_of(c.scenario);
  return family ? family->in_words(c.value) : std::string();
}

}  // namespace lockstep::scenarios::standalone
