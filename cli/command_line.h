// The typed command line, and the version of the program that reads it. Without torch.
#pragma once

#include "harness/base/characters.h"

#include <string>
#include <vector>

namespace lockstep::cli {

struct CommandLine {
  std::string program;  // what the user typed to start it
  std::vector<std::string> arguments = {};

  std::string text() const {
    std::string all = shell_word(program);
    for (const auto& argument : arguments) all += " " + shell_word(argument);
    return all;
  }
};

inline constexpr char kVersion[] = LOCKSTEP_VERSION;

}  // namespace lockstep::cli
