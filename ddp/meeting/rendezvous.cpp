#include "ddp/meeting/rendezvous.h"

#include "ddp/errors.h"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

namespace lockstep {

namespace {

using Clock = std::chrono::steady_clock;

const std::string kHere = "lockstep/rank_is_here/";
const std::string kWorldSize = "lockstep/world_size";
const std::string kVersion = "lockstep/version";
const std::string kBackends = "lockstep/backends";
const std::string kSaid = "lockstep/said_by_rank/";
const std::string kAnswered = "lockstep/answer_of_rank_zero";
const std::string kNotConnected = "lockstep/not_connected";
const std::string kCount = "lockstep/ranks_here";
const std::string kAllCame = "lockstep/all_came";
const std::string kGo = "lockstep/rank_zero_saw_all";
const std::string kAnswers = "lockstep/ranks_that_saw_rank_zero";
const std::string kMet = "lockstep/all_met";
const std::string kConnected = "lockstep/ranks_connected";
const std::string kAllConnected = "lockstep/all_connected";
const std::string kRefused = "lockstep/refused";
const std::string kLate = "late: ";  // begins a refusal that is no disagreement
const std::string kRefusalsRead = "lockstep/refusals_read";
const std::string kAllRead = "lockstep/all_read_refusal";
constexpr std::chrono::seconds kPatience{2};

std::vector<std::uint8_t> bytes_of(const std::string& text) {
  return {text.begin(), text.end()};
}

std::string text_of(const std::vector<std::uint8_t>& bytes) {
  return {bytes.begin(), bytes.end()};
}

// The first sentence that any rank gives is everybody's. Whatever they wait for is there then, so
// that they wake and look: polling a TCPStore would print two warnings a time.
void refuse(c10d::Store& store, const std::string& sentence) {
  store.compareSet(kRefused, {}, bytes_of(sentence));
  for (const std::string& key : {kAllCame, kGo, kMet}) store.set(key, bytes_of("1"));
}

// Those that came before waited in vain, and have left.
void refuse_what_was_given_up(c10d::Store& store) {
  if (!store.check({kRefused})) return;
  const std::vector<std::uint8_t> reason = store.get(kRefused);
  const std::string text = text_of(reason);
  if (!text.starts_with(kLate)) return;
  store.compareSet(
      kRefused, reason,
      bytes_of("those that came here before have given up: " + text.substr(kLate.size()) +
               ". Who comes now is late, or the store was used by an earlier run (a "
               "stale file?): give every run a store of its own"));
}

// "cpu:gloo by default, since ...". The reasons may differ.
void compare_backends(c10d::Store& store, int rank, const Introduction& introduction) {
  const auto told = [](const std::string& backends, const std::string& because) {
    return backends + (because.empty() ? "" : " (" + because + ")");
  };
  const std::string own = introduction.backends + "\n" + introduction.backends_because;
  const std::string first = text_of(store.compareSet(kBackends, {}, bytes_of(own)));
  const std::size_t end = first.find('\n');
  const std::string backends = first.substr(0, end);
  if (backends == introduction.backends) return;
  refuse(store, "the ranks decided for different backends: rank " + std::to_string(rank) + " for " +
                    told(introduction.backends, introduction.backends_because) +
                    ", another rank for " + told(backends, first.substr(end + 1)) +
                    "; InitOptions::backend, equal on all ranks, leaves nothing to decide");
}

void come_in(c10d::Store& store, const Standing& standing, const Introduction& introduction) {
  refuse_what_was_given_up(store);
  const std::string own_size = std::to_string(standing.world_size);
  const std::string size = text_of(store.compareSet(kWorldSize, {}, bytes_of(own_size)));
  if (size != own_size) {
    refuse(store, "the ranks were told different world sizes: rank " +
                      std::to_string(standing.rank) + " a world of " + own_size +
                      ", another rank one of " + size);
  }
  const std::string first = text_of(store.compareSet(kVersion, {}, bytes_of(introduction.version)));
  if (first != introduction.version) {
    refuse(store, "the ranks run different versions: rank " + std::to_string(standing.rank) + " " +
                      introduction.version + ", another rank " + first);
  }
  compare_backends(store, standing.rank, introduction);
  if (!introduction.objection.empty()) {
    refuse(store, "rank " + std::to_string(standing.rank) +
                      " cannot take part: " + introduction.objection);
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

// "0, 3-7": of many ranks a sentence, not a page.
std::string listed(const std::vector<int>& ranks) {
  std::string text;
  for (std::size_t first = 0; first < ranks.size();) {
    std::size_t last = first;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    if (last == first + 1) last = first;
    text += (text.empty() ? "" : ", ") + std::to_string(ranks[first]);
    if (last > first) text += "-" + std::to_string(ranks[last]);
    first = last + 1;
  }
  return text.empty() ? "none" : text;
}

std::string who_came(c10d::Store& store, int world_size) {
  std::vector<int> here, missing;
  for (int rank = 0; rank < world_size; ++rank) {
    (store.check({kHere + std::to_string(rank)}) ? here : missing).push_back(rank);
  }
  return "these ranks did not come: " + listed(missing) + " (these did: " + listed(here) + ")";
}

// Rank 0's process may hold the store, and stays until the others have read why all leave.
[[noreturn]] void leave(c10d::Store& store, const Standing& standing) {
  const std::string reason = text_of(store.get(kRefused));
  try {
    if (store.add(kRefusalsRead, 1) >= store.add(kCount, 0)) store.set(kAllRead, bytes_of("1"));
    if (standing.rank == 0) appears(store, kAllRead, kPatience);
  } catch (const std::exception&) {
    // Whoever held the store has left.
  }
  if (reason.starts_with(kLate)) throw std::runtime_error(reason.substr(kLate.size()));
  throw DisagreementError(reason);
}

}  // namespace

// Note [Meeting in three steps]
// A rank that came in an earlier run, and ended there, has left the same traces as one that is here
// now. So rank 0 tells that it has seen all come, and every rank answers: traces of an earlier run
// hold an answer only if all of its ranks had come, and then every rank of this one finds its own
// trace and refuses. Otherwise somebody who lives is waited for, and refuses when it comes.
void meet_in(c10d::Store& store, const Standing& standing, std::chrono::milliseconds timeout,
             const Introduction& introduction) {
  const auto deadline = Clock::now() + timeout;
  const auto wait_for = [&](const std::string& key) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
    if (!appears(store, key, std::max(left, std::chrono::milliseconds(1)))) {
      refuse(store, kLate + who_came(store, standing.world_size));
    }
    if (store.check({kRefused})) leave(store, standing);
  };
  come_in(store, standing, introduction);
  if (standing.rank == 0) {
    wait_for(kAllCame);
    store.set(kGo, bytes_of("1"));
  }
  wait_for(kGo);
  if (store.add(kAnswers, 1) >= standing.world_size) store.set(kMet, bytes_of("1"));
  wait_for(kMet);
}

std::string ask_rank_zero(
    c10d::Store& store, const Standing& standing, std::chrono::milliseconds timeout,
    const std::string& said,
    const std::function<std::string(const std::vector<std::string>& said)>& answer) {
  store.set(kSaid + std::to_string(standing.rank), bytes_of(said));
  if (standing.rank == 0) {
    std::vector<std::string> keys;
    for (int rank = 0; rank < standing.world_size; ++rank)
      keys.push_back(kSaid + std::to_string(rank));
    store.wait(keys, timeout);
    std::vector<std::string> texts;
    for (const std::string& key : keys) texts.push_back(text_of(store.get(key)));
    store.set(kAnswered, bytes_of(answer(texts)));
  }
  store.wait({kAnswered}, timeout);
  return text_of(store.get(kAnswered));
}

std::string tell_of_failed_connection(c10d::Store& store, const std::string& sentence) {
  try {
    return text_of(store.compareSet(kNotConnected, {}, bytes_of(sentence)));
  } catch (const std::exception&) {
    return sentence;
  }
}

void wait_until_connected(c10d::Store& store, int world_size, std::chrono::milliseconds timeout) {
  if (store.add(kConnected, 1) >= world_size) store.set(kAllConnected, bytes_of("1"));
  store.wait({kAllConnected}, timeout);
}

}  // namespace lockstep
