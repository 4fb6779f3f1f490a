// TCP sockets between the processes of one campaign, which may be on several hosts. A peer that
// dies is noticed at once; one whose host or cable is gone after kSilenceMost, also while nothing
// is sent. A peer that does not read or does not finish a message also ends the connection.
#pragma once

#include "harness/process/descriptor.h"

#include <chrono>
#include <string>

namespace lockstep {

// How long a host may not answer before a connection to it counts as broken.
inline constexpr std::chrono::seconds kSilenceMost{15};

struct ListeningSocket {
  Descriptor socket;
  int port = 0;  // that the system chose when it was bound
};

// Listens at a numeric address of this host, and there alone. Throws TierError.
ListeningSocket listen_on(const std::string& address);

// The next connection, or a Descriptor of -1 when `until` has passed. Throws TierError.
Descriptor accept_from(const Descriptor& listener, std::chrono::steady_clock::time_point until);

// Blocks until connected to a numeric address, at most until `until`. Throws TierError, naming the
// address and the reason.
Descriptor connect_to(const std::string& address, int port,
                      std::chrono::steady_clock::time_point until);

// Why no process accepts connections at any address of `host`, a name or a number; empty: one does.
// Closes the connection at once. Blocks until `until`, three seconds an address at most, and for as
// long as name servers take.
std::string why_unreachable(const std::string& host, int port,
                            std::chrono::steady_clock::time_point until);

// The numeric address of a network interface of this host. Throws TierError, naming the interfaces
// that exist.
std::string address_of_interface(const std::string& name);

}  // namespace lockstep
