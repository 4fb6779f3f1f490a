// The getnameinfo of Note [A name for every connection].
#include "harness/worlds/gloo/served_store.h"

#include <atomic>
#include <dlfcn.h>
#include <netdb.h>

namespace {

std::atomic<bool> numbers_do{false};

using GetNameInfo = int (*)(const sockaddr*, socklen_t, char*, socklen_t, char*, socklen_t, int);

}  // namespace

namespace lockstep {

// A call of this function from another file also makes the linker take this file.
void ask_for_no_names() {
  numbers_do.store(true, std::memory_order_relaxed);
}

}  // namespace lockstep

extern "C" __attribute__((visibility("default"))) int getnameinfo(
    const sockaddr* address, socklen_t size, char* host, socklen_t host_size, char* service,
    socklen_t service_size, int flags) {
  static const auto real = reinterpret_cast<GetNameInfo>(dlsym(RTLD_NEXT, "getnameinfo"));
  if (numbers_do.load(std::memory_order_relaxed) && (flags & NI_NAMEREQD) == 0)
    flags |= NI_NUMERICHOST;
  return real(address, size, host, host_size, service, service_size, flags);
}
