// The rendezvous of a campaign's processes, through a c10d::TCPStore at the address that their
// launcher gives. It shares nothing with the library's. No torch.
#pragma once

#include "harness/process/descriptor.h"

#include <chrono>
#include <memory>
#include <string>

namespace lockstep {

// The store of a rendezvous.
struct StorePlace {
  std::string address;  // a name or a number
  int port = 0;
  std::string holder;      // the process that serves it, in sentences: "rank 0, which holds it,"
  std::string keys;        // what its keys of this campaign begin with
  Descriptor listens;      // of the process that serves it: its socket, which listens there
  std::string served_at;   // the address at which that process reaches its own store
  std::string caveat;      // of it, for sentences: ": 192.0.2.1 is no address of this host"
  bool is_in_use = false;  // rank 0 found the port taken: another rank 0's store, or a stranger's
};

struct RendezvousRank {
  int rank = 0;
  int size = 1;
  std::string version;      // equal in all processes of a campaign, beside LibTorch's
  bool has_secret = false;  // equal in all: Note [The campaign's secret]
};

// Note [Keys that nobody can guess]
// Every process that reaches the store's port can set its keys. So rank 0's text is at no key that
// is known beforehand: each process says at which key it expects the text, and chooses it at
// random. A process that sets keys blindly cannot hit it, and the campaign's secret keeps out all
// others.

struct Rendezvous {
  std::string from_rank_zero;
  std::shared_ptr<void> store;  // of the process that serves it; a late process finds an answer
};

// Collective: blocks until all processes have come, at most `limit` and some seconds, and leaves a
// thread behind where c10d does not return. Returns `text` of rank 0 in every process. Throws
// TierError, with the same reason in every process that came: ranks that did not come, a rank that
// came twice, world sizes or versions that differ; and why there is no store at `place`.
Rendezvous rendezvous_through(StorePlace place, const RendezvousRank& own, const std::string& text,
                              std::chrono::milliseconds limit);

}  // namespace lockstep
