#include "harness/process/start_program.h"

#include <cstring>
#include <spawn.h>
#include <unistd.h>

namespace lockstep {

std::string start_program(const std::vector<std::string>& words) {
  auto copies = words;
  std::vector<char*> arguments;
  for (auto& word : copies) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  pid_t process = 0;
  const int error =
      posix_spawnp(&process, words.at(0).c_str(), nullptr, nullptr, arguments.data(), environ);
  return error == 0 ? "" : std::strerror(error);
}

}  // namespace lockstep
