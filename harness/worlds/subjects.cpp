#include "harness/worlds/subjects.h"

#include "harness/base/characters.h"
#include "harness/base/text.h"
#include "harness/worlds/subject.h"

#include <set>

namespace lockstep {

Subjects::Subjects() : Subjects(std::vector<Subject>{}) {}

Subjects::Subjects(std::initializer_list<Subject> subjects)
    : Subjects(std::vector<Subject>(subjects)) {}

Subjects::Subjects(std::vector<Subject> subjects)
    : subjects_(std::make_shared<const std::vector<Subject>>(std::move(subjects))),
      opened_(std::make_shared<std::map<std::string, Subject>>()) {
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

Subjects Subjects::with_files(SubjectFiles files) const {
  Subjects all = *this;
  all.files_ = std::make_shared<const SubjectFiles>(std::move(files));
  all.opened_ = std::make_shared<std::map<std::string, Subject>>();
  return all;
}

bool Subjects::is_file(const std::string& name) const {
  return files_ && name.starts_with(files_->kind + ":");
}

const SubjectPlugin* Subjects::plugin_of(const std::string& name) const {
  if (is_file(name)) return &files_->plugin;
  const auto plugin = plugins_.find(name);
  return plugin == plugins_.end() ? nullptr : &plugin->second;
}

std::string Subjects::why_not(const std::string& name) const {
  const auto* const plugin = plugin_of(name);
  return plugin == nullptr ? "" : plugin->why_not;
}

void Subjects::load(const std::string& name) const {
  if (is_file(name) && !is_one_line(name))
    throw SubjectError("subject " + name + ": its path holds a character that is not shown");
  const auto* const plugin = plugin_of(name);
  if (plugin == nullptr || !plugin->why_not.empty()) return;
  try {
    plugin->load();
    if (is_file(name) && !opened_->contains(name))
      opened_->emplace(name, files_->open(name, name.substr(files_->kind.size() + 1)));
  } catch (const std::runtime_error& error) {
    throw SubjectError("subject " + name + ": " + error.what());
  }
}

std::vector<std::string> Subjects::names() const {
  std::vector<std::string> names;
  for (const auto& subject : *subjects_) names.push_back(subject.name);
  for (const auto& [name, subject] : *opened_) names.push_back(name);
  return names;
}

std::vector<std::string> Subjects::choices() const {
  auto choices = names();
  if (files_) choices.push_back(files_->kind + ":FILE.py");
  return choices;
}

bool Subjects::contains(const std::string& name) const {
  for (const auto& subject : *subjects_)
    if (subject.name == name) return true;
  return opened_->contains(name);
}

const Subject& Subjects::at(const std::string& name) const {
  for (const auto& subject : *subjects_)
    if (subject.name == name) return subject;
  if (const auto opened = opened_->find(name); opened != opened_->end()) return opened->second;
  throw std::out_of_range("no subject '" + name + "'" + did_you_mean(name, names()) +
                          "; there are: " + joined(names(), ", "));
}

}  // namespace lockstep
