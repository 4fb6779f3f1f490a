// Reading JSON that others wrote: each value knows the path that leads to it, so that whatever is
// wrong with it can be told in a sentence.
#pragma once

#include "harness/core/fields.h"

#include <chrono>
#include <limits>

namespace lockstep::reports {

// Refers to a value that outlives it. What does not fit throws FieldError: "FILE:
// results[0].judged: expected a whole number from 0 to 9, found "x"".
class At {
 public:
  At(const Json& json, std::string path) : json_(json), path_(std::move(path)) {}

  At operator[](const std::string& name) const;  // a field that must be there
  bool has(const std::string& name) const;
  bool is_null() const { return json_.is_null(); }
  std::vector<At> elements() const;  // of a list

  const Json& object() const;
  std::string text() const;
  bool truth() const;
  int64_t whole(int64_t least, int64_t most) const;
  int number(int64_t least, int64_t most = std::numeric_limits<int>::max()) const;
  std::chrono::milliseconds time() const;  // of seconds, not negative

  // The one of `all` with that name.
  template <class Kind>
  Kind one_of(std::initializer_list<Kind> all) const {
    const std::string word = json_.is_string() ? json_.get<std::string>() : "";
    std::string names;
    for (const auto kind : all) {
      if (name_of(kind) == word) return kind;
      names += (names.empty() ? "" : ", ") + std::string(name_of(kind));
    }
    expected("one of " + names);
  }

  [[noreturn]] void expected(const std::string& what) const;
  [[noreturn]] void wrong(const std::string& why) const;

 private:
  const Json& json_;
  std::string path_;
};

}  // namespace lockstep::reports
