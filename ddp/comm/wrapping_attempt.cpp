#include "ddp/comm/wrapping_attempt.h"

#include "ddp/base/disagreement.h"
#include "ddp/base/waiting.h"
#include "ddp/rendezvous/tcp_store.h"

#include <exception>
#include <utility>
#include <vector>

namespace lockstep {

namespace {

const std::string kGivenUp = "lockstep/wrapping/given up";

}  // namespace

WrappingAttempt::WrappingAttempt(c10::intrusive_ptr<c10d::Store> store, int rank, int world_size,
                                 int made_before)
    : store_(world_size > 1 ? std::move(store) : nullptr),
      rank_(rank),
      world_size_(world_size),
      made_before_(made_before) {
  if (!store_) return;
  try {
    given_up_before_ = store_->add(kGivenUp, 0);
    store_->set(key_of(rank_), std::vector<std::uint8_t>{1});
  } catch (const std::exception&) {
    // The exchange that follows says what is wrong.
  }
}

std::string WrappingAttempt::key_of(int rank) const {
  return "lockstep/wrapping/" + std::to_string(given_up_before_) + "/" +
         std::to_string(made_before_) + "/" + std::to_string(rank);
}

std::string WrappingAttempt::suffix() const {
  return given_up_before_ > 0 ? ", attempt " + std::to_string(given_up_before_ + 1) : "";
}

void WrappingAttempt::give_up(const CommunicationError& error, std::chrono::milliseconds timeout,
                              const std::string& call) const {
  // Where a peer has died, its store may be gone too, and its group is of no more use.
  if (!store_ || error.waited() < timeout) return;
  constexpr std::chrono::seconds kPatience{2};
  const auto exchange = [attempt = *this] {
    attempt.note_that_it_is_given_up();
    return attempt.missing_ranks();
  };
  std::string missing;
  try {
    missing = tcp_store_in(store_) ? in_time<std::string>(kPatience, exchange,
                                                          [] { return std::string("no answer"); })
                                   : exchange();
  } catch (const std::exception&) {
    // The store does not say who came.
  }
  if (missing.empty()) return;
  throw CommunicationError(rank_, call, -1, error.waited(),
                           missing + "; every rank of the group makes this call");
}

// Several ranks may give it up; it counts once.
void WrappingAttempt::note_that_it_is_given_up() const {
  if (store_->add(kGivenUp + "/" + std::to_string(given_up_before_), 1) == 1)
    store_->add(kGivenUp, 1);
}

// Empty if all have come.
std::string WrappingAttempt::missing_ranks() const {
  std::vector<int> came, absent;
  for (int rank = 0; rank < world_size_; ++rank)
    (store_->check({key_of(rank)}) ? came : absent).push_back(rank);
  return absent.empty() ? "" : absence(absent, came);
}

}  // namespace lockstep
