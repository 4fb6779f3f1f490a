#pragma once

#include "ddp/meeting/launcher.h"

#include <functional>
#include <string>

namespace lockstep {

// Where a rank listens for its peers, without torch.

// The address of this host from which the way to `host` (a name or a number) starts: the address by
// which whoever is at `host` reaches this one. Sends nothing; a name is looked up, which may block.
// Throws UsageError if there is no such host or no way to it.
std::string address_towards(const std::string& host);

bool is_loopback(const std::string& address);

// The address that Gloo shall listen on where the user gave none.
// - All ranks are on this host, or meet on loopback: loopback. Nothing is open to the network.
// - Otherwise the address on the way to the meeting point, `route` of it: rank 0's host listens
//   where the ranks meet, the others where it sees them.
// Throws UsageError, with what to give instead, if the ranks are on several hosts and that is
// loopback: the meeting point's name stands for loopback in this host's own tables.
std::string listening_address(const Launch& launch, const MeetingPoint& point,
                              const std::function<std::string(const std::string&)>& route);

}  // namespace lockstep
