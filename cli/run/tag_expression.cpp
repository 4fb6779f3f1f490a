#include "cli/run/tag_expression.h"

#include "cli/usage.h"

namespace lockstep::cli {

namespace {

// Words and parentheses; the end is an empty one.
std::vector<std::string> tokens_of(const std::string& text) {
  std::vector<std::string> tokens;
  bool in_word = false;
  for (const char letter : text) {
    const bool is_blank = letter == ' ' || letter == '\t';
    const bool is_sign = letter == '(' || letter == ')';
    if (is_sign || (!is_blank && !in_word)) tokens.emplace_back();
    if (!is_blank) tokens.back() += letter;
    in_word = !is_blank && !is_sign;
  }
  tokens.emplace_back();
  return tokens;
}

bool is_tag(const std::string& token) {
  return !token.empty() && token != "(" && token != ")" && token != "and" && token != "or" &&
         token != "not";
}

}  // namespace

class TagExpression::Parser {
 public:
  Parser(const std::string& flag, const std::string& text, std::vector<std::string>& tags)
      : all_(flag + " " + text), tokens_(tokens_of(text)), tags_(tags) {}

  Node whole() {
    auto node = any();
    if (!here().empty()) refuse("'and', 'or' or the end");
    return node;
  }

 private:
  Node any() {
    auto node = all();
    while (take("or"))
      node = [a = std::move(node), b = all()](const HasTag& has) { return a(has) || b(has); };
    return node;
  }

  Node all() {
    auto node = one();
    while (take("and"))
      node = [a = std::move(node), b = one()](const HasTag& has) { return a(has) && b(has); };
    return node;
  }

  Node one() {
    if (take("not")) return [node = one()](const HasTag& has) { return !node(has); };
    if (take("(")) {
      auto node = any();
      if (!take(")")) refuse("')'");
      return node;
    }
    if (!is_tag(here())) refuse("a tag");
    tags_.push_back(here());
    return [tag = tokens_[at_++]](const HasTag& has) { return has(tag); };
  }

  const std::string& here() const { return tokens_[at_]; }

  bool take(const char* token) {
    if (here() != token) return false;
    ++at_;
    return true;
  }

  [[noreturn]] void refuse(const std::string& expected) const {
    throw UsageError(all_ + ": expected " + expected +
                     (here().empty() ? " at the end" : " before '" + here() + "'") +
                     ", as in \"core and not (join or buffers)\"");
  }

  const std::string all_;
  const std::vector<std::string> tokens_;
  std::vector<std::string>& tags_;
  size_t at_ = 0;
};

TagExpression::TagExpression(const std::string& flag, const std::string& text)
    : root_(Parser(flag, text, tags_).whole()) {}

}  // namespace lockstep::cli
