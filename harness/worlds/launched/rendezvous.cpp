#include "harness/worlds/launched/rendezvous.h"

#include "harness/cases/tier.h"
#include "harness/process/network.h"
#include "harness/process/secret.h"
#include "harness/worlds/gloo/served_store.h"
#include "harness/worlds/launched/arrivals.h"

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <torch/version.h>

#include <algorithm>
#include <fcntl.h>
#include <future>
#include <map>
#include <optional>
#include <thread>

namespace lockstep {

namespace {

using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::milliseconds;
using Store = c10::intrusive_ptr<c10d::Store>;

constexpr Milliseconds kPause{10};
const std::string kArrivals = "arrivals", kArrival = "arrival/", kDecision = "decision",
                  kReaders = "have_read";
// The decision that all have come; any other is the sentence that says why there is no campaign.
const std::string kGo = "go";

Milliseconds left_until(Clock::time_point until) {
  return std::max(Milliseconds(1), std::chrono::ceil<Milliseconds>(until - Clock::now()));
}

// c10's messages continue with a stack.
std::string first_line(const std::exception& error) {
  const std::string text = error.what();
  return text.substr(0, text.find('\n'));
}

// For c10d's calls, which may block beyond their timeout where the other side is no store, or is
// stopped: on a thread, which is left behind then.
template <class Call>
auto made_within(Milliseconds limit, Call call, const std::string& excuse) {
  std::packaged_task<decltype(call())()> task(std::move(call));
  auto result = task.get_future();
  std::thread(std::move(task)).detach();
  if (result.wait_for(limit) != std::future_status::ready) throw TierError(excuse);
  return result.get();
}

c10d::TCPStoreOptions options_for(int port, Milliseconds timeout) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<uint16_t>(port);
  options.waitWorkers = false;
  options.timeout = timeout;
  return options;
}

Store client_at(const StorePlace& place, Milliseconds limit, const std::string& excuse) {
  const auto options = options_for(place.port, limit);
  try {
    return made_within(
        limit,
        [address = place.address, options]() -> Store {
          return c10::make_intrusive<c10d::TCPStore>(address, options);
        },
        excuse);
  } catch (const c10::Error& error) {
    throw TierError(excuse + " (" + first_line(error) + ")");
  }
}

// The store closes the descriptor it receives.
Store served_at(const StorePlace& place, Milliseconds limit) {
  ask_for_no_names();
  auto options = options_for(place.port, limit);
  options.isServer = true;
  options.masterListenFd = checked(fcntl(place.listens.number(), F_DUPFD_CLOEXEC, 0), "a socket");
  try {
    return made_within(
        limit,
        [address = place.served_at, options]() -> Store {
          return c10::make_intrusive<c10d::TCPStore>(address, options);
        },
        "it has opened it, and does not reach it");
  } catch (const std::exception& error) {
    throw TierError("rank 0 cannot open the store there (" + first_line(error) + ")" +
                    place.caveat);
  }
}

void wait_for_listener(const StorePlace& place, Clock::time_point until) {
  constexpr Milliseconds kPoll{50};
  for (;;) {
    const auto why = why_unreachable(place.address, place.port, until);
    if (why.empty()) return;
    if (Clock::now() >= until)
      throw TierError("no store answers there: " + place.holder +
                      " has not come, has ended, or is on another host (" + why + ")");
    std::this_thread::sleep_for(kPoll);
  }
}

// A service may forward to this host from an address that is none of its own, and does so quickly.
Store open(const StorePlace& place, Clock::time_point until) {
  constexpr Milliseconds kLongestAnswer{5000}, kLongestWayBack{10000};
  const auto left = left_until(until);
  if (place.listens.number() >= 0)
    return served_at(place, place.caveat.empty() ? left : std::min(left, kLongestWayBack));
  if (place.is_in_use)
    return client_at(place, std::min(left, kLongestAnswer),
                     "rank 0 cannot open the store there: the port is in use (EADDRINUSE), and not "
                     "by a store that answers, but by another program or an earlier run that is "
                     "not over. Give this run a MASTER_PORT of its own");
  wait_for_listener(place, until);
  return client_at(place, left_until(until),
                   "what accepts connections there does not answer as a store: it is another "
                   "program, or " +
                       place.holder + " is stopped or has just ended");
}

// One process at the rendezvous.
class Participant {
 public:
  Participant(Store store, const Arrival& own, bool serves, Clock::time_point until)
      : store_(std::move(store)), own_(own), serves_(serves), until_(until) {}

  // Returns rank 0's text, or throws the reason for which there is no campaign.
  std::string rendezvous(const std::string& text) {
    const bool is_decided = store_->check({kDecision});
    const auto number = store_->add(kArrivals, 1);
    store_->set(kArrival + std::to_string(number), text_of(own_));
    if (number > own_.size) refuse_one_too_many(number);
    if (is_decided)
      refuse("those that came here before have given up: " + store_->get_to_str(kDecision) +
             ". A process that comes now is late, or the store was used by an earlier run: give "
             "every run a place of its own");
    return own_.rank == 0 ? welcome_all(text) : wait_for_reply();
  }

 private:
  // Ends when all have come, and then gives each of them the text.
  std::string welcome_all(const std::string& text) {
    for (;;) {
      const auto all = arrivals();
      if (const auto problem = problem_with(all); !problem.empty()) refuse(decided(problem));
      if (const auto absence = absence_among(all, own_.size); absence.empty()) {
        if (const auto decision = decided(kGo); decision != kGo) refuse(decision);
        for (const auto& each : all) store_->set(each.reply, text);
        return text;
      } else if (Clock::now() >= until_) {
        refuse(decided(absence));
      }
      if (store_->check({kDecision})) refuse(store_->get_to_str(kDecision));
      std::this_thread::sleep_for(kPause);
    }
  }

  std::string wait_for_reply() {
    constexpr std::chrono::seconds kBeyondDecision{5};
    for (;;) {
      if (store_->check({own_.reply})) return store_->get_to_str(own_.reply);
      if (store_->check({kDecision})) {
        if (const auto decision = store_->get_to_str(kDecision); decision != kGo) refuse(decision);
      }
      if (Clock::now() >= until_) {
        const auto absence = absence_among(arrivals(), own_.size);
        const auto silence = "all ranks came, and rank 0 has sent nothing";
        const auto decision = decided(absence.empty() ? silence : absence);
        if (decision != kGo || Clock::now() >= until_ + kBeyondDecision)
          refuse(decision == kGo ? silence : decision);
      }
      std::this_thread::sleep_for(kPause);
    }
  }

  // Refuses this process alone: the processes that arrived may be at work already.
  [[noreturn]] void refuse_one_too_many(int64_t number) {
    auto problem = problem_with(arrivals());
    if (problem.empty())
      problem =
          std::to_string(number) + " processes came to a world of " + std::to_string(own_.size);
    decided(problem);
    refuse(problem);
  }

  // The first decision counts for all.
  std::string decided(const std::string& decision) {
    return store_->compareSet(kDecision, std::string(), decision);
  }

  // The processes that have identified themselves. A process that was counted may have died before.
  std::vector<Arrival> arrivals() {
    std::vector<Arrival> all;
    const auto count = store_->add(kArrivals, 0);
    for (int64_t number = 1; number <= count; ++number) {
      const auto key = kArrival + std::to_string(number);
      auto& known = known_[number];
      if (!known && store_->check({key})) known = arrival_in(store_->get_to_str(key));
      if (known) all.push_back(*known);
    }
    return all;
  }

  // The store ends with the process that serves it, which waits until all have read why, for two
  // seconds at most, since processes that died do not read.
  [[noreturn]] void refuse(const std::string& why) {
    constexpr std::chrono::seconds kLongest{2};
    try {
      auto readers = store_->add(kReaders, 1);
      const auto until = Clock::now() + kLongest;
      while (serves_ && readers < store_->add(kArrivals, 0) && Clock::now() < until) {
        std::this_thread::sleep_for(kPause);
        readers = store_->add(kReaders, 0);
      }
      // c10d prints a stack in every client whose store ends.
      if (serves_) std::this_thread::sleep_for(5 * kPause);
    } catch (const std::exception&) {
      // The store has ended.
    }
    throw TierError(why);
  }

  const Store store_;
  const Arrival own_;
  const bool serves_;
  const Clock::time_point until_;
  std::map<int64_t, std::optional<Arrival>> known_;
};

Rendezvous rendezvous_at(const StorePlace& place, const RendezvousRank& own,
                         const std::string& text, Milliseconds limit) {
  const auto until = Clock::now() + limit;
  const bool serves = place.listens.number() >= 0;
  const auto store = open(place, until);
  const Arrival arrival{.rank = own.rank,
                        .size = own.size,
                        .version = own.version + " on PyTorch " TORCH_VERSION,
                        .reply = "reply/" + fresh_token(),
                        .has_secret = own.has_secret};
  const auto keys = c10::make_intrusive<c10d::PrefixStore>(place.keys, store);
  return {.from_rank_zero = Participant(keys, arrival, serves, until).rendezvous(text),
          .store = serves ? std::make_shared<Store>(store) : nullptr};
}

}  // namespace

Rendezvous rendezvous_through(StorePlace given, const RendezvousRank& own, const std::string& text,
                              Milliseconds limit) {
  constexpr std::chrono::seconds kBeyondLimit{8};  // longer than the rest of a refusal takes
  const auto kept = std::make_shared<const StorePlace>(std::move(given));
  const StorePlace& place = *kept;
  const auto start = Clock::now();
  try {
    return made_within(
        limit + kBeyondLimit, [=] { return rendezvous_at(*kept, own, text, limit); },
        "the store does not answer any more: " + place.holder + " may be stopped");
  } catch (const std::exception& error) {
    const auto waited = std::chrono::duration_cast<Milliseconds>(Clock::now() - start);
    const bool is_stores = dynamic_cast<const c10::Error*>(&error) != nullptr;
    throw TierError(
        "rank " + std::to_string(own.rank) + ": the rendezvous of " + std::to_string(own.size) +
        " ranks at " + place.address + ":" + std::to_string(place.port) + " failed after " +
        std::to_string(waited.count()) + " ms: " +
        (is_stores ? "the store is gone: " + place.holder +
                         " has ended, and says why if it could (" + first_line(error) + ")"
                   : first_line(error)));
  }
}

}  // namespace lockstep
