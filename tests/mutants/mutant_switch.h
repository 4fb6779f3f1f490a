// Which of the mutants in a build of tests/mutants/auto.py this process has; without one, what it
// costs is a comparison.
#pragma once

#include <cstdlib>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace lockstep_mutant {

inline constexpr int kMost = 1 << 20;

inline int number_from_environment() {
  const char* const text = std::getenv("LOCKSTEP_MUTANT");
  return text ? std::atoi(text) : 0;
}

inline const int chosen = number_from_environment();

// Shared by the processes that have the same file. It outlives them, however they end.
inline char* reached_ones() {
  const char* const path = std::getenv("LOCKSTEP_MUTANTS_REACHED");
  const int file = path ? open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644) : -1;
  if (file < 0 || ftruncate(file, kMost) != 0) return nullptr;
  void* const memory = mmap(nullptr, kMost, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  return memory == MAP_FAILED ? nullptr : static_cast<char*>(memory);
}

inline bool look(int number) {
  if (chosen > 0) return number == chosen;
  static char* const reached = reached_ones();
  if (reached) reached[number] = 1;
  return false;
}

inline bool is(int number) {
  return chosen != 0 && look(number);
}

}  // namespace lockstep_mutant
