// Reads JSON from other programs: each value knows its path in the document, so that an error can
// name it.
#pragma once

#include "harness/base/fields.h"

#include <chrono>
#include <limits>

namespace lockstep::reports {

// Refers to a value that outlives it. A value that does not fit throws FieldError: "FILE:
// results[0].judged: expected a whole number from 0 to 9, found "x"".
class At {
 public:
  At(const Json& json, std::string path) : json_(json), path_(std::move(path)) {}

  At operator[](const std::string& name) const;  // a required field
  bool has(const std::string& name) const;
  bool is_null() const { return json_.is_null(); }
  std::vector<At> elements() const;                        // of a list
  std::vector<std::pair<std::string, At>> fields() const;  // of an object, whatever their names

  const Json& json() const { return json_; }
  const Json& object() const;
  std::string text() const;
  std::string line() const;  // a text without line breaks and other control characters
  bool truth() const;
  double share() const;  // a number from 0 to 1
  double real() const;   // any number
  int64_t whole(int64_t least, int64_t most) const;
  int number(int64_t least, int64_t most = std::numeric_limits<int>::max()) const;
  std::chrono::milliseconds time() const;  // of seconds, not negative

  // The element of `all` with that name.
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
  std::string path_of(const std::string& name) const;

  const Json& json_;
  std::string path_;
};

}  // namespace lockstep::reports
