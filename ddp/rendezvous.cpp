#include "ddp/rendezvous.h"

#include "ddp/errors.h"

#include <stdexcept>
#include <string>
#include <vector>

namespace lockstep {

namespace {

using Clock = std::chrono::steady_clock;

const std::string kHere = "lockstep/rank_is_here/";
const std::string kWorldSize = "lockstep/world_size";
const std::string kCount = "lockstep/ranks_here";
const std::string kAllCame = "lockstep/all_came";
const std::string kGo = "lockstep/rank_zero_saw_all";
const std::string kAnswers = "lockstep/ranks_that_saw_rank_zero";
const std::string kMet = "lockstep/all_met";
const std::string kConnected = "lockstep/ranks_connected";
const std::string kAllConnected = "lockstep/all_connected";
const std::string kRefused = "lockstep/refused";
constexpr std::chrono::milliseconds kPoll{50};

std::vector<std::uint8_t> bytes_of(const std::string& text) {
  return {text.begin(), text.end()};
}

std::string text_of(const std::vector<std::uint8_t>& bytes) {
  return {bytes.begin(), bytes.end()};
}

// The first sentence that any rank gives is everybody's.
void refuse(c10d::Store& store, const std::string& sentence) {
  store.compareSet(kRefused, {}, bytes_of(sentence));
}

void come_in(c10d::Store& store, const Standing& standing) {
  const std::string own_size = std::to_string(standing.world_size);
  const std::string size = text_of(store.compareSet(kWorldSize, {}, bytes_of(own_size)));
  if (size != own_size) {
    refuse(store, "the ranks were told different world sizes: rank " +
                      std::to_string(standing.rank) + " a world of " + own_size +
                      ", another rank one of " + size);
  }
  if (store.add(kHere + std::to_string(standing.rank), 1) > 1) {
    refuse(store, "rank " + std::to_string(standing.rank) +
                      " has met here before: the store was used by an earlier run (a stale file?), "
                      "or two processes have this rank. Give every run a store of its own");
  }
  if (store.add(kCount, 1) >= standing.world_size) store.set(kAllCame, bytes_of("1"));
}

bool appears(c10d::Store& store, const std::string& key, std::chrono::milliseconds time) {
  try {
    store.wait({key}, time);
    return true;
  } catch (const std::exception&) {
    return store.check({key});
  }
}

std::string missing_ranks(c10d::Store& store, int world_size) {
  std::string missing;
  for (int rank = 0; rank < world_size; ++rank) {
    if (store.check({kHere + std::to_string(rank)})) continue;
    missing += (missing.empty() ? "" : ", ") + std::to_string(rank);
  }
  return missing.empty() ? "none" : missing;
}

}  // namespace

// Note [Meeting in three steps]
// A rank that came in an earlier run, and ended there, has left the same traces as one that is here
// now. So rank 0 tells that it has seen all come, and every rank answers: traces of an earlier run
// hold an answer only if all of its ranks had come, and then every rank of this one finds its own
// trace and refuses. Otherwise somebody who lives is waited for, and refuses when it comes.
void meet_in(c10d::Store& store, const Standing& standing, std::chrono::milliseconds timeout) {
  const auto deadline = Clock::now() + timeout;
  const auto wait_for = [&](const std::string& key) {
    while (!appears(store, key, kPoll) && !store.check({kRefused})) {
      if (Clock::now() < deadline) continue;
      throw std::runtime_error("these ranks did not come: " +
                               missing_ranks(store, standing.world_size));
    }
    if (store.check({kRefused})) throw DisagreementError(text_of(store.get(kRefused)));
  };
  come_in(store, standing);
  if (standing.rank == 0) {
    wait_for(kAllCame);
    store.set(kGo, bytes_of("1"));
  }
  wait_for(kGo);
  if (store.add(kAnswers, 1) >= standing.world_size) store.set(kMet, bytes_of("1"));
  wait_for(kMet);
}

void wait_until_connected(c10d::Store& store, int world_size, std::chrono::milliseconds timeout) {
  if (store.add(kConnected, 1) >= world_size) store.set(kAllConnected, bytes_of("1"));
  store.wait({kAllConnected}, timeout);
}

}  // namespace lockstep
