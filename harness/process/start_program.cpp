#include "harness/process/start_program.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <spawn.h>
#include <unistd.h>

namespace lockstep {

namespace {

std::vector<char*> pointers_to(std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (auto& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace

std::string start_program(const std::vector<std::string>& words) {
  auto copies = words;
  const auto arguments = pointers_to(copies);
  pid_t process = 0;
  const int error =
      posix_spawnp(&process, words.at(0).c_str(), nullptr, nullptr, arguments.data(), environ);
  return error == 0 ? "" : std::strerror(error);
}

std::string become_program(const std::string& program, std::vector<std::string> words) {
  ::execvp(program.c_str(), pointers_to(words).data());
  return std::strerror(errno);
}

void put_first(const char* variable, const std::string& path) {
  const char* const before = std::getenv(variable);
  const bool lists_some = before != nullptr && *before != '\0';
  ::setenv(variable, (lists_some ? path + ":" + before : path).c_str(), 1);
}

}  // namespace lockstep
