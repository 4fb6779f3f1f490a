#include "ddp/rendezvous/connecting.h"

#include "ddp/base/disagreement.h"
#include "ddp/base/waiting.h"
#include "ddp/errors.h"
#include "ddp/rendezvous/exchange.h"

#include <algorithm>
#include <stdexcept>

namespace lockstep {

namespace {

using std::chrono::milliseconds;

const std::string kConnecting = "lockstep/connecting";
const std::string kWhoIsThere = "lockstep/who_is_there";

// A rank's state in the exchange: one of these, or why it cannot connect.
const std::string kIsConnected = "connected";
const std::string kIsBusy = "connecting";

std::string state_of(const DetachableCall& connect) {
  if (!connect.has_ended()) return kIsBusy;
  try {
    connect.rethrow();
    return kIsConnected;
  } catch (const std::exception& error) {
    return first_line(error);
  }
}

std::vector<int> ranks_that_say(const Exchanged& result, const std::string& text) {
  std::vector<int> ranks;
  for (const auto& entry : result.entries)
    if (entry.text == text) ranks.push_back(entry.rank);
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

bool all_are_connected(const Exchanged& result, int world_size) {
  return static_cast<int>(ranks_that_say(result, kIsConnected).size()) == world_size;
}

// The error of the first rank that failed, or nothing.
std::string failure_in(const Exchanged& result) {
  for (const auto& [rank, text] : result.entries) {
    if (text != kIsConnected && text != kIsBusy)
      return "rank " + std::to_string(rank) + " cannot connect " + text;
  }
  return "";
}

// Every live rank polls the first exchange, and answers here.
std::string who_did_not_connect(c10d::Store& store, const RankAndSize& position,
                                const DetachableCall& connect) {
  constexpr milliseconds kUntilItFails{500};  // `connect` has the same deadline, and says more
  constexpr milliseconds kLongestAnswer{1000};
  const Deadline deadline = deadline_in(kLongestAnswer);
  connect.wait_until(deadline_in(kUntilItFails));
  const Exchanged alive = exchange(store, kWhoIsThere, position, state_of(connect), deadline);
  const std::string failure = failure_in(alive);
  if (!failure.empty()) return failure;
  const std::vector<int> silent = alive.missing(position.world_size);
  if (!silent.empty()) {
    return "all ranks came, and these did not answer: " + listed(silent) +
           " (these wait to be connected: " + listed(alive.present()) + ")";
  }
  return "all ranks came, and these did not connect: " + listed(ranks_that_say(alive, kIsBusy)) +
         " (these did: " + listed(ranks_that_say(alive, kIsConnected)) + ")";
}

}  // namespace

void connect_in(const c10::intrusive_ptr<c10d::Store>& store, const RankAndSize& position,
                milliseconds timeout, const std::function<void()>& connect) {
  const Deadline deadline = deadline_in(timeout);
  // A store serves one thread at a time, and Gloo may wait in this one until the time is up.
  const auto own = store->clone();
  const DetachableCall call([store, connect] { connect(); });
  call.wait_until(deadline, [&] { return result_of_exchange(*own, kConnecting).has_value(); });
  const std::string state = state_of(call);
  const Exchanged result =
      exchange(*own, kConnecting, position, state,
               state == kIsConnected ? deadline : deadline_in(milliseconds(0)));
  if (all_are_connected(result, position.world_size)) return;
  std::string problem = failure_in(result);
  if (problem.empty()) problem = who_did_not_connect(*own, position, call);
  stay_until_read(*own, kConnecting, position.rank, position.world_size);
  // A call that polls failed_connection() ends soon: better now than at the end of the process.
  constexpr std::chrono::seconds kPatience{1};
  call.wait_until(deadline_in(kPatience));
  throw std::runtime_error(problem);
}

std::string failed_connection(c10d::Store& store) {
  try {
    const auto result = result_of_exchange(store, kConnecting);
    return result ? failure_in(*result) : "";
  } catch (const std::exception&) {
    return "";
  }
}

}  // namespace lockstep
