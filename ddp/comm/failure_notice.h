#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

// The progress of a rank that ended without an error.
struct PeacefulEnd {
  std::int64_t issued_count = 0;  // collectives of its instance's own communicator
  std::int64_t pass_count = 0;    // synchronised backward passes
};

// Shared by the instances on one group of this process: the last error message of any of them,
// empty once a forward begins. Thread-safe.
class LastFailure {
 public:
  void set(const std::string& sentence);
  std::string get() const;

 private:
  mutable std::mutex mutex_;
  std::string sentence_;
};

// A place in the group's store where a rank that fails posts its error message, so that its peers'
// waits fail with that message rather than at their deadline. Within one forward the first message
// stays.
//
// Note [What a report is about] A rank whose forward threw may continue: if the same forward threw
// on all ranks, and all skip it, nothing happened. So a report of a forward is about that forward,
// by its number among those in which ranks exchange something or that are synchronised, which ranks
// make alike (a number of all forwards would differ where a rank evaluates alone, or has run out of
// inputs), and about the collectives that its rank had not issued when it threw. It ends a peer's
// wait for one of those, as long as the peer is in that forward or its backward: not if the peer's
// own forward threw too, nor once the peer has begun anything else. A peer that lags behind waits
// for a collective that the rank did issue. Every other report is about all waits, until
// update_process_group(). The first of these stays; an error that it made a peer report in turn is
// for the rank that posted it, which may wait for that peer.
//
// Everything is Local; a call takes one exchange with the store and at most two seconds. Nothing
// throws: where a store is gone, or a group has none, nothing is posted or read. Thread-safe: a
// pass may end on a thread of autograd's while the caller posts its own error.
class FailureNotice {
 public:
  // `store` may be null. `instance` identifies one instance; another life of it has another name.
  FailureNotice(c10::intrusive_ptr<c10d::Store> store, int rank, const std::string& instance,
                std::shared_ptr<LastFailure> last_failure = std::make_shared<LastFailure>());

  // Removes what an earlier run left in the store. Rank 0 calls it before any rank can post.
  void clear() noexcept;

  // This rank begins synchronised forward `number`; a local forward in which ranks exchange
  // something, as buffers or statistics; or anything else: another local forward, a join.
  void begin_forward(std::int64_t number);
  void begin_local_exchange();
  void begin_other();

  // Counts a collective of any communicator that polls this notice; returns how many were issued
  // before it.
  std::int64_t count_issue() { return issued_count_++; }
  std::int64_t issued_count() const { return issued_count_; }

  // Posts that this rank cannot continue: the sentence, or why this forward threw, if it did. The
  // launcher receives the message too.
  void post(const std::string& sentence) noexcept;

  // The same for a sentence of the program's, which may be about what came behind that forward.
  void post_of_the_program(const std::string& sentence) noexcept;

  // The same, but a later post replaces it, and the launcher does not receive it.
  void post_for_now(const std::string& sentence) noexcept;

  // Posts that the module threw in this forward: Note [What a report is about]. Nothing in a
  // forward for which no rank waits.
  void post_thrown_forward(const std::string& sentence) noexcept;

  // The same where this library refused the forward; the launcher receives the message too.
  void post_refused_forward(const std::string& sentence) noexcept;

  // Posts that the backward pass of this forward threw: about all waits in it.
  void post_thrown_backward(const std::string& sentence) noexcept;

  // Posts that an exception unwinds this instance, with the message that another instance of this
  // process posted since the last forward began, which may be that exception.
  void post_that_it_is_unwound() noexcept;

  // A peer's message: "rank 2 reported: ...", that ends a wait for the collective before which this
  // rank had issued `issued_before` others. Nothing while no peer posted, or where this rank did.
  std::optional<std::string> read(std::int64_t issued_before) noexcept;

  // Posts that this rank's instance ends without an error, for peers that expect another step of
  // it. Skipped where the store is gone.
  void post_end(const PeacefulEnd& end) noexcept;

  // "rank 1 ended after 3 synchronised backwards; ...", of a peer that has posted its end and will
  // not issue collective `sequence_number` of its instance's own communicator; if that number is
  // unknown, of one that has begun fewer forwards than this rank. Nothing where there is none.
  std::optional<std::string> ended_peer(std::optional<std::int64_t> sequence_number) noexcept;

  // True if there was a store in the first place.
  bool had_store() const { return had_store_; }

  // Increments this rank's count of signs of life, which all instances on the group share, and says
  // what it waits for.
  void give_sign_of_life(const std::string& awaited) noexcept;

  // Each rank's count; nothing where the store does not answer. One round trip per rank.
  std::optional<std::vector<std::int64_t>> signs_of_life(int world_size) noexcept;

  // Returns what a rank that gave a sign of life waits for; empty where the store does not answer.
  std::string awaited_by(int rank) noexcept;

  // True if the store's server has closed the connection, as far as reads have shown.
  bool server_has_left() const { return server_has_left_; }

 private:
  std::string end_key() const;
  std::string answer_key() const;  // to a report for good
  using Exchange = std::function<std::string(c10d::Store& store)>;
  // Returns what the exchange returns; if it throws or takes too long, returns nothing and drops
  // the store.
  std::string exchange(const Exchange& exchange) noexcept;
  // Returns what it posted: if this forward threw, the reason for that.
  std::string post_for_good(const std::string& sentence) noexcept;
  void post_until(std::int64_t moment, std::int64_t issued_count,
                  const std::string& sentence) noexcept;
  void begin(std::int64_t moment);
  std::string text_at(const std::string& key) noexcept;

  const int rank_;
  const std::string key_;
  const bool had_store_;
  const std::shared_ptr<LastFailure> last_failure_;
  std::atomic<bool> server_has_left_ = false;
  std::mutex mutex_;  // guards what follows
  c10::intrusive_ptr<c10d::Store> store_;
  std::atomic<std::int64_t> issued_count_ = 0;
  std::int64_t moment_ = 1;  // of the last forward that is numbered, or the one behind it
  std::string reported_;     // of this forward, which threw
};

}  // namespace lockstep
