#pragma once

#include "ddp/errors.h"

#include <chrono>
#include <functional>
#include <optional>
#include <string>

namespace lockstep {

// Thrown by spawn() where a process failed.
class SpawnError : public Error {
 public:
  SpawnError(int rank, const std::string& sentence);

  int rank() const { return rank_; }

 private:
  int rank_;
};

struct SpawnOptions {
  // Longest time for all processes together, positive. Unset: as long as their functions run.
  std::optional<std::chrono::milliseconds> timeout;
};

// Runs `function(rank)` in `process_count` new processes of this host, with ranks 0 to
// process_count - 1, and returns when all have returned. In each of them init_process_group()
// finds its peers: RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT are
// set, and this process serves the store, on loopback, at a port that nobody else can have. Each
// process computes with its share of the threads that this one would use (at::set_num_threads).
//
//   lockstep::spawn(4, [](int rank) { train(lockstep::init_process_group(), rank); });
//
// The processes are forked, so spawn() is called while this process has one thread: at the start of
// main(), before any backward pass, data loader or process group, and before CUDA is used. A
// process ends as its function returns, without destructors of statics; what its streams hold is
// written.
//
// The first failure ends the others: an exception, a signal, or an exit with a status other than 0.
// SIGTERM is sent to them, and a second later SIGKILL. SpawnError has the sentence of the process
// that failed first; where a rank failed only because its peer had, the peer's. All processes are
// gone when spawn() returns or throws, and the kernel kills them if this process dies.
//
// Local; blocks. Throws UsageError where there are other threads, or process_count is less than 1.
// Source: torch.multiprocessing.spawn, with join=True.
void spawn(int process_count, const std::function<void(int rank)>& function,
           const SpawnOptions& options = {});

}  // namespace lockstep
