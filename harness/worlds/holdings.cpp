#include "harness/worlds/holdings.h"

#include "harness/process/single_threaded.h"

#include <algorithm>
#include <cstdlib>
#include <dirent.h>
#include <netinet/in.h>
#include <optional>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>

namespace lockstep {

namespace {

std::vector<int> open_descriptors() {
  std::vector<int> open;
  DIR* folder = opendir("/proc/self/fd");
  if (!folder) return open;
  while (const dirent* entry = readdir(folder))
    if (entry->d_name[0] != '.' && std::atoi(entry->d_name) != dirfd(folder))
      open.push_back(std::atoi(entry->d_name));
  closedir(folder);
  return open;
}

// Since Linux 6.2 the folder's size is the number of descriptors.
int descriptor_count() {
  struct stat folder {};
  if (stat("/proc/self/fd", &folder) == 0 && folder.st_size > 0)
    return static_cast<int>(folder.st_size);
  return static_cast<int>(open_descriptors().size());
}

// The port that a TCP socket is bound to.
std::optional<uint16_t> port_of(int descriptor) {
  sockaddr_storage address{};
  socklen_t length = sizeof(address);
  if (getsockname(descriptor, reinterpret_cast<sockaddr*>(&address), &length) != 0) return {};
  if (address.ss_family == AF_INET)
    return ntohs(reinterpret_cast<const sockaddr_in&>(address).sin_port);
  if (address.ss_family == AF_INET6)
    return ntohs(reinterpret_cast<const sockaddr_in6&>(address).sin6_port);
  return {};
}

bool is_listening(int descriptor) {
  int listens = 0;
  socklen_t length = sizeof(listens);
  return getsockopt(descriptor, SOL_SOCKET, SO_ACCEPTCONN, &listens, &length) == 0 && listens != 0;
}

std::set<uint16_t> ports_listened_on() {
  std::set<uint16_t> ports;
  for (const int descriptor : open_descriptors())
    if (is_listening(descriptor))
      if (const auto port = port_of(descriptor)) ports.insert(*port);
  return ports;
}

// A socket bound to a port on which another socket listens was accepted there.
int accepted_on(const std::set<uint16_t>& ports) {
  if (ports.empty()) return 0;
  const auto open = open_descriptors();
  return static_cast<int>(std::count_if(open.begin(), open.end(), [&](int descriptor) {
    const auto port = port_of(descriptor);
    return port && ports.contains(*port) && !is_listening(descriptor);
  }));
}

bool has_child() {
  siginfo_t child{};
  return waitid(P_ALL, 0, &child, WEXITED | WSTOPPED | WNOHANG | WNOWAIT) == 0;
}

}  // namespace

Holdings Holdings::now() {
  return Holdings{.listening_ports = ports_listened_on()}.later();
}

Holdings Holdings::later() const {
  return {.threads = thread_count(),
          .descriptors = descriptor_count() - accepted_on(listening_ports),
          .child = has_child(),
          .listening_ports = listening_ports};
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

std::vector<std::string> Holdings::lasting_more(std::chrono::milliseconds limit) const {
  constexpr std::chrono::milliseconds kPause{5};
  const auto until = std::chrono::steady_clock::now() + limit;
  auto more = more_in(later());
  while (!more.empty() && std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(kPause);
    more = more_in(later());
  }
  return more;
}

}  // namespace lockstep
