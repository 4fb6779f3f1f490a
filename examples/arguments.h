// The command line of the examples: --name value, in any order.
#pragma once

#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>

class Arguments {
 public:
  // `known`: the names and default values. Throws where a name is unknown or has no value.
  Arguments(int count, char** words, std::map<std::string, std::string> known)
      : values_(std::move(known)) {
    for (int i = 1; i < count; i += 2) {
      const std::string name = words[i];
      if (!values_.contains(name)) throw std::invalid_argument("unknown argument " + name);
      if (i + 1 == count) throw std::invalid_argument(name + " needs a value");
      values_[name] = words[i + 1];
    }
  }

  const std::string& text(const std::string& name) const { return values_.at(name); }

  std::int64_t number(const std::string& name) const {
    std::size_t end = 0;
    std::int64_t value = -1;
    try {
      value = std::stoll(text(name), &end);
    } catch (const std::exception&) {
    }
    if (value < 0 || value > INT32_MAX || end != text(name).size()) {
      throw std::invalid_argument(name + " is '" + text(name) +
                                  "', expected a number from 0 to 2147483647");
    }
    return value;
  }

 private:
  std::map<std::string, std::string> values_;
};
