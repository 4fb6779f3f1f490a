#include "harness/worlds/subjects.h"

#include "harness/core/text.h"
#include "harness/worlds/subject.h"

#include <set>

namespace lockstep {

Subjects::Subjects() : Subjects(std::vector<Subject>{}) {}

Subjects::Subjects(std::initializer_list<Subject> subjects)
    : Subjects(std::vector<Subject>(subjects)) {}

Subjects::Subjects(std::vector<Subject> subjects)
    : subjects_(std::make_shared<const std::vector<Subject>>(std::move(subjects))) {
  std::set<std::string> seen;
  for (const auto& subject : *subjects_) {
    if (subject.name.empty()) throw std::invalid_argument("a subject needs a name");
    if (!seen.insert(subject.name).second)
      throw std::invalid_argument("two subjects are called '" + subject.name + "'");
  }
}

Subjects Subjects::with_plugin(const std::string& name, SubjectPlugin plugin) const {
  if (!contains(name)) throw std::invalid_argument("no subject '" + name + "' for a plugin");
  Subjects all = *this;
  all.plugins_[name] = std::move(plugin);
  return all;
}

std::string Subjects::why_not(const std::string& name) const {
  const auto plugin = plugins_.find(name);
  return plugin == plugins_.end() ? "" : plugin->second.why_not;
}

void Subjects::load(const std::string& name) const {
  const auto plugin = plugins_.find(name);
  if (plugin != plugins_.end() && plugin->second.why_not.empty()) plugin->second.load();
}

std::vector<std::string> Subjects::names() const {
  std::vector<std::string> names;
  for (const auto& subject : *subjects_) names.push_back(subject.name);
  return names;
}

bool Subjects::contains(const std::string& name) const {
  for (const auto& subject : *subjects_)
    if (subject.name == name) return true;
  return false;
}

const Subject& Subjects::at(const std::string& name) const {
  for (const auto& subject : *subjects_)
    if (subject.name == name) return subject;
  throw std::out_of_range("no subject '" + name + "'" + did_you_mean(name, names()) +
                          "; there are: " + joined(names(), ", "));
}

}  // namespace lockstep
