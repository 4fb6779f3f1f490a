#include "harness/process/single_threaded.h"

#include "harness/base/tier_errors.h"

#include <fstream>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace lockstep {

namespace {

void require_one_thread() {
  if (const int threads = thread_count(); threads != 1)
    throw TierError("a process must be forked while the program has one thread; it has " +
                    std::to_string(threads));
}

}  // namespace

SingleThreaded::SingleThreaded() : process_(::getpid()) {
  require_one_thread();
}

SingleThreaded::SingleThreaded(SingleThreaded&& other) noexcept
    : process_(std::exchange(other.process_, 0)) {}

pid_t SingleThreaded::fork() const {
  if (process_ != ::getpid())
    throw TierError("the proof that this process has one thread is of another process, or moved");
  require_one_thread();
  return ::fork();
}

int thread_count() {
  // The links of a folder are its subfolders and its own two: one system call.
  struct stat folder {};
  if (stat("/proc/self/task", &folder) == 0 && folder.st_nlink > 2)
    return static_cast<int>(folder.st_nlink) - 2;
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("Threads:")) return std::stoi(line.substr(8));
  throw TierError(
      "/proc/self/status says nothing of threads; mount /proc (mount -t proc proc /proc)");
}

}  // namespace lockstep
