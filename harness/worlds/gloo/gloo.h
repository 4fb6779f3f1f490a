// PyTorch's Gloo backend. gloo.cpp is the only file that includes Gloo's headers.
#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <string>
#include <vector>

namespace lockstep {

bool gloo_available();

// Collective: `ranks` of the world, of which this is number `rank`, rendezvous in `store`, which
// holds nothing of another group; each listens on `listens_on`, an address of its host. Blocks
// until all have joined, at most `timeout`, which then limits every collective; destroying the
// backend also blocks that long while a collective is pending. One worker thread, so that
// collectives end in the order in which they were issued.
c10::intrusive_ptr<c10d::Backend> gloo_backend(const c10::intrusive_ptr<c10d::Store>& store,
                                               int rank, const std::vector<int>& ranks,
                                               std::chrono::milliseconds timeout,
                                               const std::string& listens_on = "127.0.0.1");

// Note [Gloo's stall]
// Gloo's event thread polls its sockets and, for one that is ready, tries the lock of the pair;
// when the thread that holds the lock was descheduled, the event thread spins through epoll_wait,
// which returns at once, for a whole scheduler tick. On two cores the median 1 MiB all-reduce takes
// 4 ms instead of 0.5. The cure is an epoll_wait in the executable, found before libc's, that calls
// the real one and yields the processor after a few immediate returns. It is on until switched off,
// for every caller of epoll_wait in the process.
void cure_gloo_stalls(bool on);

}  // namespace lockstep
