#include "harness/world/holdings.h"

#include "harness/process/zygote.h"

#include <filesystem>
#include <iterator>
#include <sys/wait.h>

namespace lockstep {

namespace {

int entries(const char* folder) {
  return static_cast<int>(std::distance(std::filesystem::directory_iterator(folder),
                                        std::filesystem::directory_iterator()));
}

bool has_child() {
  siginfo_t child{};
  return waitid(P_ALL, 0, &child, WEXITED | WSTOPPED | WNOHANG | WNOWAIT) == 0;
}

}  // namespace

Holdings Holdings::now() {
  return {thread_count(), entries("/proc/self/fd"), has_child()};
}

std::vector<std::string> Holdings::more_in(const Holdings& later) const {
  std::vector<std::string> out;
  const auto more = [&](int before, int after, const std::string& what) {
    if (after > before) out.push_back(std::to_string(after - before) + " " + what);
  };
  more(threads, later.threads, "thread(s) more than before");
  more(descriptors, later.descriptors, "open descriptor(s) more than before");
  if (later.child) out.push_back("a process that it started");
  return out;
}

}  // namespace lockstep
