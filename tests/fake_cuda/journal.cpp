#include "tests/fake_cuda/journal.h"

#include "tests/fake_cuda/api.h"

#include <chrono>
#include <cstdlib>
#include <fcntl.h>
#include <unistd.h>

namespace lockstep::fake_cuda {

namespace {

int open_journal() {
  const char* const path = std::getenv("LOCKSTEP_FAKE_CUDA_JOURNAL");
  return path != nullptr ? ::open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644) : -1;
}

void write_whole(int file, const std::string& text) {
  if (::write(file, text.data(), text.size()) < 0) return;
}

}  // namespace

void note(const std::string& word, const std::string& about) {
  static const int journal = open_journal();
  static const auto start = std::chrono::steady_clock::now();
  if (journal < 0) return;
  const auto since = std::chrono::steady_clock::now() - start;
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(since).count();
  write_whole(journal, std::to_string(ms) + " " + word + (about.empty() ? "" : " " + about) + "\n");
}

void give_up(const std::string& sentence) {
  note("gave_up", sentence);
  write_whole(STDERR_FILENO, "stand-in for CUDA and NCCL: " + sentence + "\n");
  std::abort();
}

}  // namespace lockstep::fake_cuda

// A line of the program that runs with this library: where a step begins, and the like.
LOCKSTEP_FAKE_CUDA_API void lockstep_fake_cuda_mark(const char* text) {
  lockstep::fake_cuda::note("mark", text);
}
