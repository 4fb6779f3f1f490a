// The tags that a scenario must have: "core", "core and not slow", "(join or buffers) and
// exhaustive". `not` binds before `and`, `and` before `or`.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace lockstep::cli {

class TagExpression {
 public:
  // Throws UsageError, which begins with the flag and the text, where it is no expression.
  TagExpression(const std::string& flag, const std::string& text);

  using HasTag = std::function<bool(const std::string& tag)>;
  bool holds(const HasTag& has_tag) const { return root_(has_tag); }

  // Every tag that it names, in order.
  const std::vector<std::string>& tags() const { return tags_; }

 private:
  class Parser;
  using Node = std::function<bool(const HasTag&)>;
  std::vector<std::string> tags_;  // filled while root_ is made
  Node root_;
};

}  // namespace lockstep::cli
