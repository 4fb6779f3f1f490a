// The subjects a program knows, in the order they were given. No torch: code that only passes the
// list on does not need Subject. A file of the user's may be one too: "python:FILE.py".
#pragma once

#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace lockstep {

struct Subject;

// The part of a subject that is not in the program.
struct SubjectPlugin {
  std::string why_not;         // why this machine cannot use it; empty: it can
  std::function<void()> load;  // may start the program anew, with other libraries
};

// A plugin or a file cannot be used: what a command named, and why.
struct SubjectError : std::runtime_error {
  using runtime_error::runtime_error;
};

// Makes a subject of a file, once the plugin is loaded. Throws std::runtime_error for one that
// cannot be a subject.
struct SubjectFiles {
  std::string kind;  // "python", of "python:FILE.py"
  SubjectPlugin plugin;
  std::function<Subject(const std::string& name, const std::string& path)> open;
};

class Subjects {
 public:
  Subjects();
  // Throws std::invalid_argument for a subject without a name, or two with the same name.
  Subjects(std::initializer_list<Subject> subjects);
  explicit Subjects(std::vector<Subject> subjects);

  // The same subjects, of which `name` needs a plugin.
  Subjects with_plugin(const std::string& name, SubjectPlugin plugin) const;

  // The same subjects, and every file of that kind.
  Subjects with_files(SubjectFiles files) const;

  // Includes the files that were loaded.
  std::vector<std::string> names() const;
  bool contains(const std::string& name) const;

  // Names of subjects for an error message: names(), and "python:FILE.py" for every file.
  std::vector<std::string> choices() const;
  bool is_file(const std::string& name) const;

  // Throws std::out_of_range, naming the subjects there are.
  const Subject& at(const std::string& name) const;

  // Why this machine cannot use it; empty: it can.
  std::string why_not(const std::string& name) const;

  // Loads what it needs, if anything. Before anything forks, starts a thread or uses LibTorch.
  // Throws SubjectError.
  void load(const std::string& name) const;

 private:
  const SubjectPlugin* plugin_of(const std::string& name) const;

  std::map<std::string, SubjectPlugin> plugins_;          // by subject
  std::shared_ptr<const std::vector<Subject>> subjects_;  // shared: a value that copies cheaply
  std::shared_ptr<const SubjectFiles> files_;             // none: null
  std::shared_ptr<std::map<std::string, Subject>> opened_;
};

}  // namespace lockstep
