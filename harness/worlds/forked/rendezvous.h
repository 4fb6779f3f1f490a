// How the ranks of a world find each other, and wait for each other before they exit.
#pragma once

#include "harness/worlds/forked/exit_barrier.h"
#include "harness/worlds/gloo/served_store.h"

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <cstddef>
#include <span>
#include <string>

namespace lockstep {

class ForkedRendezvous {
 public:
  virtual ~ForkedRendezvous() = default;

  // The store of this world, empty at its start; waits in it end after `patience`. Blocks until it
  // can be reached, at most as long. Throws what c10d throws.
  virtual c10::intrusive_ptr<c10d::Store> open_store(std::chrono::milliseconds patience) const = 0;

  // Blocks until all `size` ranks of the world have finished, or one has ended badly, or `until`
  // has passed: Note [Leaving together].
  virtual void wait_for_others(int size, std::chrono::steady_clock::time_point until) const = 0;

  // The address of this host at which peers reach a rank.
  virtual std::string listens_on() const = 0;
};

// For ranks that one process has forked: in memory that they share.
class RendezvousInMemory final : public ForkedRendezvous {
 public:
  RendezvousInMemory(std::span<std::byte> store, ExitBarrier& exit_barrier)
      : store_(store), exit_barrier_(exit_barrier) {}
  c10::intrusive_ptr<c10d::Store> open_store(std::chrono::milliseconds patience) const override;
  void wait_for_others(int size, std::chrono::steady_clock::time_point until) const override;
  std::string listens_on() const override { return "127.0.0.1"; }

 private:
  const std::span<std::byte> store_;
  ExitBarrier& exit_barrier_;
};

// For ranks anywhere: in a store that the runner serves.
class RendezvousAtServer final : public ForkedRendezvous {
 public:
  struct Place {
    std::string address;
    int port = 0;
    std::string listens_on;  // of this rank
  };
  explicit RendezvousAtServer(Place place) : place_(std::move(place)) {}
  c10::intrusive_ptr<c10d::Store> open_store(std::chrono::milliseconds patience) const override;
  void wait_for_others(int size, std::chrono::steady_clock::time_point until) const override;
  std::string listens_on() const override { return place_.listens_on; }

 private:
  const Place place_;
};

// In the runner, for ranks that rendezvous in the store it serves: no rank waits for others from
// now on. Throws what c10d throws.
void call_off(ServedStore& store);

}  // namespace lockstep
