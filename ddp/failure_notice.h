#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <functional>
#include <optional>
#include <string>

namespace lockstep {

// A place in the group's store where a rank that fails leaves its sentence, so that its peers'
// waits end with that rather than with their patience. The first sentence stays.
//
// Everything is Local; a call takes one exchange with the store and at most two seconds. Nothing
// throws: where a store is gone, or a group has none, nothing is told.
class FailureNotice {
 public:
  // `store` may be null.
  FailureNotice(c10::intrusive_ptr<c10d::Store> store, int rank);

  // Before the ranks' first exchange, on rank 0: takes away what was left in the store before.
  void clear() noexcept;

  void post(const std::string& sentence) noexcept;

  // This rank goes on after all: takes away what it posted.
  void withdraw() noexcept;

  // What a peer posted: "rank 2 failed: ...". Nothing while nobody did, or where this rank did.
  std::optional<std::string> read() noexcept;

 private:
  using Exchange = std::function<std::string(c10d::Store& store)>;
  // What the exchange returns; nothing, and no store from then on, if it throws or takes too long.
  std::string exchange(const Exchange& exchange) noexcept;

  c10::intrusive_ptr<c10d::Store> store_;
  const int rank_;
  bool has_posted_ = false;
};

}  // namespace lockstep
