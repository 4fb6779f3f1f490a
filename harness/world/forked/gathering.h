// Where the ranks of a world find each other, and wait for each other before they leave.
#pragma once

#include "harness/world/forked/meeting.h"
#include "harness/world/served_store.h"

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <cstddef>
#include <span>
#include <string>

namespace lockstep {

class Gathering {
 public:
  virtual ~Gathering() = default;

  // The store of this world, empty at its start; waits in it end after `patience`. Blocks until it
  // can be reached, at most as long. Throws what c10d throws.
  virtual c10::intrusive_ptr<c10d::Store> open_store(std::chrono::milliseconds patience) const = 0;

  // Blocks until all `size` ranks of the world are through, or one has ended badly, or `until` has
  // passed: Note [Leaving together].
  virtual void wait_for_others(int size, std::chrono::steady_clock::time_point until) const = 0;

  // The address of this host at which a rank is there for its peers.
  virtual std::string listens_on() const = 0;
};

// Of ranks that one process has forked: in memory that they share.
class GatheringInMemory final : public Gathering {
 public:
  GatheringInMemory(std::span<std::byte> store, Meeting& meeting)
      : store_(store), meeting_(meeting) {}
  c10::intrusive_ptr<c10d::Store> open_store(std::chrono::milliseconds patience) const override;
  void wait_for_others(int size, std::chrono::steady_clock::time_point until) const override;
  std::string listens_on() const override { return "127.0.0.1"; }

 private:
  const std::span<std::byte> store_;
  Meeting& meeting_;
};

// Of ranks anywhere: in a store that the runner serves.
class GatheringAtServer final : public Gathering {
 public:
  struct Place {
    std::string address;
    int port = 0;
    std::string listens_on;  // of this rank
  };
  explicit GatheringAtServer(Place place) : place_(std::move(place)) {}
  c10::intrusive_ptr<c10d::Store> open_store(std::chrono::milliseconds patience) const override;
  void wait_for_others(int size, std::chrono::steady_clock::time_point until) const override;
  std::string listens_on() const override { return place_.listens_on; }

 private:
  const Place place_;
};

// In the runner, of ranks that gather in the store it serves: nobody waits for others any more.
// Throws what c10d throws.
void call_off(ServedStore& store);

}  // namespace lockstep
