#include "ddp/meeting/connecting.h"

#include "ddp/errors.h"
#include "ddp/meeting/attendance.h"
#include "ddp/meeting/outcome.h"

#include <future>
#include <memory>
#include <stdexcept>
#include <thread>

namespace lockstep {

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

const std::string kStep = "connecting";
const std::string kConnected = "lockstep/rank_is_connected/";
const std::string kConnectedCount = "lockstep/ranks_connected";
const std::string kRollCall = "lockstep/roll_call";
const std::string kWaiting = "lockstep/rank_waits_to_be_connected/";

// Who is alive answers a roll call, also one that is still busy connecting.
std::string who_did_not_connect(c10d::Store& store, int world_size) {
  constexpr milliseconds kLongestAnswer{500};
  const auto deadline = Clock::now() + kLongestAnswer;
  for (int rank = 0; rank < world_size; ++rank)
    if (!appears(store, kWaiting + std::to_string(rank), deadline)) break;
  const Attendance alive(store, kWaiting, world_size);
  if (!alive.absent.empty()) {
    return "all ranks came, and nothing more was heard of these: " + listed(alive.absent) +
           " (these wait to be connected: " + listed(alive.present) + ")";
  }
  const Attendance connected(store, kConnected, world_size);
  return "all ranks came, and these did not connect: " + listed(connected.absent) +
         " (these did: " + listed(connected.present) + ")";
}

}  // namespace

void connect_in(const c10::intrusive_ptr<c10d::Store>& store, const Standing& standing,
                milliseconds timeout, const std::function<void()>& connect) {
  const auto deadline = Clock::now() + timeout;
  // A store serves one at a time, and Gloo may wait in this one until the time is up.
  const auto own = store->clone();
  Outcome outcome(*own, kStep, {kRollCall});
  // It may block for longer, and then is left behind.
  const auto end = std::make_shared<std::promise<void>>();
  auto ended = end->get_future();
  std::thread([store, standing, connect = connect, end]() mutable {
    try {
      Outcome outcome(*store, kStep, {kRollCall});
      std::string problem;
      try {
        connect();
      } catch (const std::exception& error) {
        problem = first_line(error);
      }
      const std::string rank = std::to_string(standing.rank);
      if (!problem.empty()) outcome.say("rank " + rank + " cannot connect " + problem);
      store->set(kConnected + rank, bytes_of("1"));
      if (store->add(kConnectedCount, 1) >= standing.world_size) outcome.say(kNothingToTell);
    } catch (const std::exception&) {
      // The store is gone, which is told by the one who waits below.
    }
    connect = nullptr;  // with what it has begun
    end->set_value();
  }).detach();
  const bool is_called = appears(*own, kRollCall, deadline);
  if (!outcome.is_there()) {
    own->set(kWaiting + std::to_string(standing.rank), bytes_of("1"));
    if (!is_called) {
      own->set(kRollCall, bytes_of("1"));
      outcome.say(who_did_not_connect(*own, standing.world_size));
    } else if (!appears(*own, outcome.told(), Clock::now() + std::chrono::seconds(1))) {
      outcome.say(who_did_not_connect(*own, standing.world_size));
    }
  }
  const std::string reason = outcome.get();
  if (reason == kNothingToTell) return;
  outcome.stay(standing.rank, standing.world_size);
  // What looks at told_of_failed_connection() ends soon: better not at the end of the process.
  constexpr std::chrono::seconds kPatience{1};
  ended.wait_for(kPatience);
  throw std::runtime_error(reason);
}

std::string told_of_failed_connection(c10d::Store& store) {
  try {
    const Outcome outcome(store, kStep, {});
    const std::string reason = outcome.is_there() ? outcome.get() : kNothingToTell;
    return reason == kNothingToTell ? "" : reason;
  } catch (const std::exception&) {
    return "";
  }
}

}  // namespace lockstep
