#include "ddp/rendezvous/store_at.h"

#include "ddp/base/waiting.h"
#include "ddp/errors.h"
#include "ddp/rendezvous/addresses.h"
#include "ddp/rendezvous/listening.h"
#include "ddp/rendezvous/tcp_store.h"

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <algorithm>
#include <cstring>
#include <netdb.h>
#include <stdexcept>
#include <sys/socket.h>
#include <unistd.h>

namespace lockstep {

namespace {

using StorePointer = c10::intrusive_ptr<c10d::Store>;

c10d::TCPStoreOptions options_of(const RendezvousAddress& point,
                                 std::chrono::milliseconds timeout) {
  c10d::TCPStoreOptions options;
  options.port = point.port;
  // The rendezvous counts them, and can say which are missing.
  options.waitWorkers = false;
  options.timeout = timeout;
  return options;
}

StorePointer client_at(const RendezvousAddress& point, std::chrono::milliseconds timeout) {
  return c10::make_intrusive<c10d::TCPStore>(point.address, options_of(point, timeout));
}

// Blocks until a process listens there, or the deadline. c10d would try rarely, print the stack of
// each attempt, and continue for twice the time.
void wait_for_listener(const RendezvousAddress& point, Deadline deadline) {
  std::string why;
  const auto answers = [&] {
    const Addresses targets = addresses_of_host(point.address, point.port, SOCK_STREAM);
    why = targets.problem;
    for (const addrinfo* target = targets.first.get(); target != nullptr;
         target = target->ai_next) {
      const int error = error_of_connecting(*target, deadline);
      if (error == 0) return true;
      why = std::strerror(error);
    }
    return false;
  };
  constexpr std::chrono::milliseconds kShortestPause{5}, kLongestPause{100};
  if (!poll_until(deadline, answers, {.shortest = kShortestPause, .longest = kLongestPause})) {
    throw std::runtime_error("no store answers there: " + holder_of(point) +
                             " has not come, has ended, or is on another host (" + why + ")");
  }
}

const std::string kRanksThatLeft = "ranks_that_left";

// Note [Leaving the store]
// A rank that fails because a peer has ended reads the cause from the store, and the store ends
// with rank 0's process. So every rank counts itself out when it releases its store, and rank 0
// stays until all have, for half a second at most: longer than a peer needs that has just lost its
// connections, and too short to matter if one has died. After a run without errors, rank 0 waits
// only for ranks that end a little later.
class StoreOfRank final : public c10d::PrefixStore {
 public:
  StoreOfRank(const std::string& prefix, const c10::intrusive_ptr<c10d::TCPStore>& store,
              const RankAndSize& position)
      : PrefixStore(prefix, store), tcp_(store), position_(position) {}

  ~StoreOfRank() override {
    try {
      leave();
    } catch (const std::exception&) {
      // The process that served the store has exited.
    }
  }

 private:
  void leave() {
    constexpr std::chrono::milliseconds kLongestAnswer{200}, kLongestStay{500}, kPause{5};
    // c10d prints the stack of every attempt to reach a server that is gone.
    if (position_.rank != 0 &&
        !accepts_connections(tcp_->getHost(), tcp_->getPort(), kLongestAnswer))
      return;
    add(kRanksThatLeft, 1);
    if (position_.rank != 0) return;
    poll_until(deadline_in(kLongestStay),
               [this] { return add(kRanksThatLeft, 0) >= position_.world_size; },
               {.shortest = kPause, .longest = kPause});
  }

  const c10::intrusive_ptr<c10d::TCPStore> tcp_;
  const RankAndSize position_;
};

StorePointer store_on_port_in_use(const RendezvousAddress& point,
                                  std::chrono::milliseconds timeout) {
  constexpr std::chrono::milliseconds kLongestAnswer{5000};
  const std::string sentence =
      "rank 0 cannot open the store there: the port is in use (EADDRINUSE), and not by a store "
      "that "
      "answers, but by another program or an earlier run that is not over. Give this run a "
      "MASTER_PORT of its own";
  const auto limit = std::min(kLongestAnswer, timeout);
  try {
    return in_time<StorePointer>(
        limit, [point, limit] { return client_at(point, limit); }, [&] { return sentence; });
  } catch (const std::exception&) {
    throw std::runtime_error(sentence);
  }
}

// A service may forward to this host from an address that is none of its own, and does so quickly.
StorePointer store_of_rank_zero(const RendezvousAddress& point, std::chrono::milliseconds timeout) {
  constexpr std::chrono::milliseconds kLongestWayBack{10000};
  const std::string elsewhere = ": " + point.address + " is no address of this host";
  StoreSocket listening;
  try {
    listening = listen_for_store(point);
  } catch (const UsageError& error) {
    throw std::runtime_error("rank 0 cannot open the store there (" + first_line(error) + ")" +
                             elsewhere);
  }
  const bool is_here = listening.is_point_here;
  const std::string where = is_here ? "" : elsewhere;
  if (listening.is_in_use && is_here) return store_on_port_in_use(point, timeout);
  if (listening.is_in_use)
    throw std::runtime_error("rank 0 cannot open the store" + where +
                             ", where the port is in use (EADDRINUSE) besides");
  if (listening.number < 0)
    throw std::runtime_error("rank 0 cannot open the store there (" + listening.problem + ")" +
                             where);
  const auto limit = is_here ? timeout : std::min(kLongestWayBack, timeout);
  try {
    return in_time<StorePointer>(
        limit, [point, listening, limit] { return serve_store(point, listening, limit); },
        [] { return std::string("it has opened it, and does not reach it"); });
  } catch (const std::exception& error) {
    throw std::runtime_error("rank 0 cannot open the store there (" + first_line(error) + ")" +
                             where);
  }
}

StorePointer store_of_another(const RendezvousAddress& point, std::chrono::milliseconds timeout) {
  const Deadline deadline = deadline_in(timeout);
  wait_for_listener(point, deadline);
  const std::string sentence =
      "what accepts connections there does not answer as a store: it is another program, or " +
      holder_of(point) + " is stopped or has just ended";
  const auto left = time_left(deadline);
  try {
    return in_time<StorePointer>(
        left, [point, left] { return client_at(point, left); }, [&] { return sentence; });
  } catch (const c10::Error& error) {
    throw std::runtime_error(sentence + " (" + first_line(error) + ")");
  }
}

}  // namespace

// Otherwise c10d would listen on every interface.
StorePointer serve_store(const RendezvousAddress& point, const StoreSocket& listening,
                         std::chrono::milliseconds timeout) {
  auto options = options_of(point, timeout);
  options.isServer = true;
  options.masterListenFd = listening.number;
  return c10::make_intrusive<c10d::TCPStore>(
      listening.is_point_here ? listening.address : point.address, options);
}

StorePointer open_store(const RendezvousAddress& point, const RankAndSize& position,
                        std::chrono::milliseconds timeout) {
  const bool is_mine = position.rank == 0 && !point.agent_runs_store;
  auto store = is_mine ? store_of_rank_zero(point, timeout) : store_of_another(point, timeout);
  const std::string job = point.job.empty() ? "" : point.job + "/";
  const std::string prefix = "lockstep/" + job + "attempt_" + std::to_string(point.attempt);
  const auto tcp = tcp_store_in(store);
  if (point.agent_runs_store || !tcp) return c10::make_intrusive<c10d::PrefixStore>(prefix, store);
  return c10::make_intrusive<StoreOfRank>(prefix, tcp, position);
}

std::string holder_of(const RendezvousAddress& point) {
  return point.agent_runs_store ? "the launcher, which holds it," : "rank 0, which holds it,";
}

}  // namespace lockstep
