#pragma once

#include "ddp/errors.h"

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <cstdint>
#include <string>

namespace lockstep {

// Note [Wrappings that were given up]
// The first exchange of an instance uses the group itself, where peers that have died are found at
// once. A rank that gives it up, since a peer does not come, leaves its part of it in the group:
// the peers' next exchange would match that. So the group's store has the number of attempts that
// were given up. Once there is one, each instance begins with a group of its own, of that number.

// One rank's attempt to attach an instance, the `made_before`-th on its group. Every rank notes in
// the store that it has come. Without a store nothing is noted. Everything is Local, but for
// exchanges with the store.
class WrappingAttempt {
 public:
  WrappingAttempt(c10::intrusive_ptr<c10d::Store> store, int rank, int world_size, int made_before);

  std::int64_t given_up_before() const { return given_up_before_; }

  // Ends the name of what this attempt makes: ", attempt 2", where one was given up.
  std::string suffix() const;

  // It failed with `error`. If ranks did not come within `timeout`, the next attempt is another
  // one, on all ranks, and this throws CommunicationError, which names them and `call`.
  void give_up(const CommunicationError& error, std::chrono::milliseconds timeout,
               const std::string& call) const;

 private:
  void note_that_it_is_given_up() const;
  std::string missing_ranks() const;
  std::string key_of(int rank) const;

  const c10::intrusive_ptr<c10d::Store> store_;  // null where nothing is noted
  const int rank_;
  const int world_size_;
  const int made_before_;
  std::int64_t given_up_before_ = 0;
};

}  // namespace lockstep
