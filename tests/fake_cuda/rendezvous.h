#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::fake_cuda {

// How the processes of one communicator find each other on this host, over TCP on loopback, as
// NCCL's do: the unique id is the address where its maker listens, each rank connects there and
// says where it listens itself, and when all have arrived each receives the whole table. Then every
// two ranks connect.

// The address of a new rendezvous, for which this process listens in a thread of its own, until all
// have come, or as long as it lives.
std::uint16_t open_rendezvous();

struct Member {
  int rank = 0;
  int size = 0;
  std::string gpu;  // host and GPU; equal ones are refused
};

struct Connected {
  std::vector<int> sockets;  // to each rank, by rank; -1 for this one
  std::string problem;       // why not; empty: all are there
  bool is_misuse = false;    // of NCCL, not of the network
};

// Blocks until all ranks have come. `stop` is looked at; ends soon after it is set.
Connected rendezvous(std::uint16_t port, const Member& member, const std::atomic<bool>& stop);

}  // namespace lockstep::fake_cuda
