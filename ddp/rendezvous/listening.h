#pragma once

#include "ddp/rendezvous/launcher.h"

#include <functional>
#include <string>

namespace lockstep {

// The addresses at which a rank listens for its peers, without torch.

// The address of this host from which the route to `host` (a name or a number) starts, by which
// processes at `host` reach this one. Sends nothing; a name is looked up, which may block. Throws
// UsageError if there is no such host or no route to it.
std::string address_towards(const std::string& host);

bool is_loopback(const std::string& address);

// The address at which Gloo listens if the user gave none.
// - All ranks are on this host, or have their rendezvous on loopback: loopback. Nothing is open to
//   the network.
// - Otherwise the address on the way to the rendezvous, `route` of it: rank 0's host listens at the
//   rendezvous address, the others at the address by which it reaches them.
// Throws UsageError, with what to give instead, if the ranks are on several hosts and that address
// is loopback: this host's own tables resolve the rendezvous address's name to loopback.
std::string listening_address(const Launch& launch, const RendezvousAddress& point,
                              const std::function<std::string(const std::string&)>& route);

// A socket that listens for the clients of the store at `point`.
struct StoreSocket {
  int number = -1;            // its taker closes it; -1: there is none
  std::string address;        // where it listens, or should have
  std::string problem;        // why there is none
  bool is_in_use = false;     // the problem: the port is taken
  bool is_point_here = true;  // the rendezvous address is one of this host's
};

// Listens at the rendezvous address if it is this host's, an IPv4 one if there is one, and nowhere
// else: at loopback if `point` is loopback. Two cases differ.
// - The rendezvous address is none of this host's, as where a service forwards to it: at the
//   address from which the route there starts.
// - The rendezvous address's name is loopback here, and point.expects_other_hosts: on every
//   interface, since ranks of this host come by loopback and others do not.
// Local; may query name servers, and blocks for as long as these take.
StoreSocket listen_for_store(const RendezvousAddress& point);

}  // namespace lockstep
