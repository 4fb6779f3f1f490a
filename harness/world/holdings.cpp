#include "harness/world/holdings.h"

#include <dirent.h>
#include <sys/wait.h>

namespace lockstep {

namespace {

int entries(const char* folder) {
  DIR* open = opendir(folder);
  if (!open) return 0;
  int count = 0;
  while (readdir(open)) ++count;
  closedir(open);
  return count;
}

bool has_child() {
  siginfo_t child{};
  return waitid(P_ALL, 0, &child, WEXITED | WSTOPPED | WNOHANG | WNOWAIT) == 0;
}

}  // namespace

Holdings Holdings::now() {
  return {entries("/proc/self/task"), entries("/proc/self/fd"), has_child()};
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
