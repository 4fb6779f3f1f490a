// The subjects a program knows, in the order they were given. No torch: code that only passes the
// list on does not need Subject.
#pragma once

#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace lockstep {

struct Subject;

// The part of a subject that is not in the program.
struct SubjectPlugin {
  std::string why_not;         // why this machine cannot use it; empty: it can
  std::function<void()> load;  // may start the program anew, with other libraries
};

class Subjects {
 public:
  Subjects();
  // Throws std::invalid_argument for a subject without a name, or two with the same name.
  Subjects(std::initializer_list<Subject> subjects);
  explicit Subjects(std::vector<Subject> subjects);

  // The same subjects, of which `name` needs a plugin.
  Subjects with_plugin(const std::string& name, SubjectPlugin plugin) const;

  std::vector<std::string> names() const;
  bool contains(const std::string& name) const;

  // Throws std::out_of_range, naming the subjects there are.
  const Subject& at(const std::string& name) const;

  // Why this machine cannot use it; empty: it can.
  std::string why_not(const std::string& name) const;

  // Loads what it needs, if anything. Before anything forks, starts a thread or uses LibTorch.
  void load(const std::string& name) const;

 private:
  std::map<std::string, SubjectPlugin> plugins_;          // by subject
  std::shared_ptr<const std::vector<Subject>> subjects_;  // shared: a value that copies cheaply
};

}  // namespace lockstep
