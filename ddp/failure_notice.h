#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

// A place in the group's store where a rank that fails leaves its sentence, so that its peers'
// waits end with that rather than with their patience. Within one forward the first sentence stays.
//
// Everything is Local; a call takes one exchange with the store and at most two seconds. Nothing
// throws: where a store is gone, or a group has none, nothing is told. Thread-safe: a pass may end
// on a thread of autograd's while the caller tells why it gives up.
class FailureNotice {
 public:
  // `store` may be null. `instance` names one instance, and is new for each life of it.
  FailureNotice(c10::intrusive_ptr<c10d::Store> store, int rank, const std::string& instance);

  // Before anyone can post, on rank 0: takes away what an earlier run left in the store.
  void clear() noexcept;

  // How many forwards this rank has begun.
  void set_moment(std::int64_t forward_count);

  // This rank cannot go on. The launcher is told too.
  void post(const std::string& sentence) noexcept;

  // The same, until somebody says more: what is posted later takes its place. The launcher is not
  // told.
  void post_for_now(const std::string& sentence) noexcept;

  // That one forward threw. It does not count any more for ranks that have begun a later one: they
  // have got over it, and so, perhaps, has this rank.
  void post_of_this_forward(const std::string& sentence) noexcept;

  // What a peer posted: "rank 2 reported: ...". Nothing while nobody did, or where this rank did.
  std::optional<std::string> read() noexcept;

  // Whether there was a store in the first place.
  bool had_store() const { return had_store_; }

  // That this rank lives: counts one up.
  void give_sign_of_life() noexcept;

  // How often each rank has; nothing where the store does not answer. A round trip a rank.
  std::optional<std::vector<std::int64_t>> signs_of_life(int world_size) noexcept;

  // Whether the store's server has closed the connection, as far as reading has shown.
  bool server_has_left() const { return server_has_left_; }

 private:
  std::string sign_key(int rank) const;
  using Exchange = std::function<std::string(c10d::Store& store)>;
  // What the exchange returns; nothing, and no store from then on, if it throws or takes too long.
  std::string exchange(const Exchange& exchange) noexcept;
  void post_until(std::int64_t moment, const std::string& sentence) noexcept;

  const int rank_;
  const std::string key_;
  const bool had_store_;
  std::atomic<bool> server_has_left_ = false;
  std::mutex mutex_;  // guards what follows
  c10::intrusive_ptr<c10d::Store> store_;
  std::int64_t moment_ = 0;
  std::string told_;  // of the forward that threw
  std::int64_t told_at_ = -1;
};

}  // namespace lockstep
