// The subjects, scenarios, demonstrations and backends that this program was built with.
#pragma once

#include "cli/command_line.h"
#include "cli/usage.h"
#include "demos/lessons.h"
#include "harness/base/text.h"
#include "harness/cases/tier.h"
#include "harness/worlds/devices/backends.h"
#include "harness/worlds/subjects.h"

namespace lockstep::cli {

struct Known {
  std::string program;  // what the user typed to start it
  Subjects subjects;
  std::vector<Scenario> scenarios;  // canaries included
  std::vector<Demo> demos;          // in the order of a course
  KnownBackends backends = known_backends();
  std::vector<Demo> beliefs;  // the demonstrations "belief-1", "belief-2", ...
  std::vector<CourseStep> course;
  std::vector<std::string> arguments = {};  // that the user typed

  CommandLine line() const { return {program, arguments}; }
  std::string command() const { return line().text(); }
};

// With the tier's own backend, if it has one.
inline Setting setting_of(const std::string& subject, const std::string& tier,
                          const std::string& backend) {
  const Setting setting{subject, tier, backend};
  const std::string own = traits_of(setting).own_backend;
  return {subject, tier, own.empty() ? backend : own};
}

// Why this machine cannot run it; empty: it can. Throws UsageError for a wrong request, except in
// launched processes, which exchange that error; otherwise the others would wait for this one.
inline std::string why_not_here(const Setting& setting, const Known& known) {
  if (auto reason = known.subjects.why_not(setting.subject); !reason.empty()) return reason;
  const auto& tier = traits_of(setting);
  if (*tier.own_backend != '\0') return "";
  const auto& backend = backend_called(setting.backend, known.backends);
  if (!backend.misuse.empty() && !tier.is_launched) throw UsageError(backend.misuse);
  return backend.why_not;
}

// The subjects that a flag names, with what they need loaded: before anything is drawn or forked.
inline std::vector<std::string> subjects_to_run(const std::string& text, const Known& known) {
  auto choices = known.subjects.choices();
  for (const auto& name : split(text, ','))
    if (known.subjects.is_file(name)) choices.push_back(name);
  const auto names = words("--subject", text, choices);
  for (const auto& name : names) known.subjects.load(name);
  return names;
}

// The default subject of a command: Lockstep's own, or the first one if that is not known.
inline std::string default_subject(const Known& known) {
  const std::string own = Setting().subject;
  const auto names = known.subjects.names();
  return known.subjects.contains(own) || names.empty() ? own : names.front();
}

}  // namespace lockstep::cli
