#pragma once

#include "tests/ddp/forked_world.h"

#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <string>

namespace lockstep::testing {

// A port of loopback on which nobody listens. This process keeps it from being given to anybody who
// asks for a port, while a store can be opened on it.
int free_port();

// A port of loopback on which this process listens, and answers nobody.
int silent_port();

// The environment of this process is that of one rank, as somebody sets it by hand, and no more.
void stand(int rank, int world_size, const std::string& address, int port);

// A store in this process, on a port of its own choice.
c10::intrusive_ptr<c10d::TCPStore> serve_store();

// Gives every rank what one rank knows: the sum of their numbers. Collective.
int sent_to_all(const Group& group, int number);

}  // namespace lockstep::testing
