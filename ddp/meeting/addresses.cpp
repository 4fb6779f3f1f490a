#include "ddp/meeting/addresses.h"

namespace lockstep {

Addresses addresses_of_host(const std::string& name, int port, int socket_type) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = socket_type;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(name.c_str(), std::to_string(port).c_str(), &hints, &found);
  Addresses addresses;
  if (error != 0) addresses.problem = ::gai_strerror(error);
  if (error == 0) addresses.first.reset(found);
  return addresses;
}

}  // namespace lockstep
