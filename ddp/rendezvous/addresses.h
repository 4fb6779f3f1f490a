#pragma once

#include <chrono>
#include <memory>
#include <netdb.h>
#include <string>

namespace lockstep {

// The addresses that the host's resolver gives for a name.
struct Addresses {
  std::unique_ptr<addrinfo, void (*)(addrinfo*)> first{nullptr, ::freeaddrinfo};  // of a list
  std::string problem;  // why there is none; empty: there is
};

// Resolves for sockets of `socket_type`, such as SOCK_STREAM. Local; queries name servers, and
// blocks for as long as these take.
Addresses addresses_of_host(const std::string& name, int port, int socket_type);

// "192.0.2.1"; empty where there is no such text.
std::string numeric_text_of(const sockaddr& address, socklen_t size);

// 0 if a process accepts connections there, else the errno. Blocks until the deadline, at most
// three seconds.
int error_of_connecting(const addrinfo& target, std::chrono::steady_clock::time_point deadline);

// True if a process accepts connections at any of the host's addresses, within `patience` for each.
bool accepts_connections(const std::string& host, int port, std::chrono::milliseconds patience);

}  // namespace lockstep
