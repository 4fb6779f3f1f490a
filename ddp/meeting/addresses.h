#pragma once

#include <memory>
#include <netdb.h>
#include <string>

namespace lockstep {

// What the host's resolver knows of a name.
struct Addresses {
  std::unique_ptr<addrinfo, void (*)(addrinfo*)> first{nullptr, ::freeaddrinfo};  // of a list
  std::string problem;  // why there is none; empty: there is
};

// For sockets of `socket_type`, such as SOCK_STREAM. Local; asks name servers, and blocks for as
// long as these take.
Addresses addresses_of_host(const std::string& name, int port, int socket_type);

}  // namespace lockstep
