#include "harness/world/holdings.h"

#include "harness/process/zygote.h"

#include <dirent.h>
#include <sys/stat.h>
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

// Since Linux 6.2 the folder's size is their number.
int descriptor_count_now() {
  struct stat folder {};
  if (stat("/proc/self/fd", &folder) != 0 || folder.st_size == 0) return entries("/proc/self/fd");
  return static_cast<int>(folder.st_size);
}

bool has_child() {
  siginfo_t child{};
  return waitid(P_ALL, 0, &child, WEXITED | WSTOPPED | WNOHANG | WNOWAIT) == 0;
}

}  // namespace

Holdings Holdings::now() {
  return {thread_count(), descriptor_count_now(), has_child()};
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
