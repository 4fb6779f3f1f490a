// The subjects a program knows, in the order they were given. No torch: code that only passes the
// list on does not need Subject.
#pragma once

#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

namespace lockstep {

struct Subject;

class Subjects {
 public:
  Subjects();
  // Throws std::invalid_argument for a subject without a name, or two with the same name.
  Subjects(std::initializer_list<Subject> subjects);
  explicit Subjects(std::vector<Subject> subjects);

  std::vector<std::string> names() const;
  bool contains(const std::string& name) const;

  // Throws std::out_of_range, naming the subjects there are.
  const Subject& at(const std::string& name) const;

 private:
  std::shared_ptr<const std::vector<Subject>> subjects_;  // shared: a value that copies cheaply
};

}  // namespace lockstep
