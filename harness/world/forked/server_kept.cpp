// The groups that a forked server keeps between cases: warm worlds, and the host of simulated ones.
#include "harness/core/tier.h"
#include "harness/world/forked/server.h"
#include "harness/world/sim/host.h"

#include <algorithm>
#include <bit>
#include <csignal>
#include <unistd.h>
#include <utility>

namespace lockstep {

namespace {

// Ranks of warm worlds that a lane keeps alive; more only cost memory.
constexpr int kKeptRanksMost = 16;

// The time for making a warm world or a host, beyond the case's own: the case does not cause it.
constexpr std::chrono::seconds kMakingPatience{30};

// A host has room for worlds of at least this many ranks.
constexpr int kHostRanksLeast = 16;

// How the ranks of a simulated world ended when their host did: the one that ran as the host did,
// the others cut off. Those of a host that lives on have reported themselves how they ended.
std::vector<ChildEnd> ends_in_host(const ChildEnd& host, bool is_alive, int running, int size) {
  std::vector<ChildEnd> ends(static_cast<size_t>(size), {ChildEnd::Kind::exited, kPlayed});
  if (is_alive) return ends;
  for (int rank = 0; rank < size; ++rank)
    ends[static_cast<size_t>(rank)] =
        rank == running ? host : ChildEnd{ChildEnd::Kind::cut_off, SIGKILL};
  return ends;
}

}  // namespace

CaseReply ForkedServer::play_warm(const CaseRequest& request, int stop_descriptor) {
  const int size = request.size;
  CaseReply reply;
  affinity_.roam();
  KeptWorld* const world =
      warm_world(request, Clock::now() + request.limit + kMakingPatience, stop_descriptor);
  reply.group.stopped = world == nullptr;
  if (!world) return reply;
  run_on_kept(*world, request, stop_descriptor, reply);
  reply.left.resize(static_cast<size_t>(size));
  bool is_usable = world->group->is_whole();
  for (int rank = 0; rank < size; ++rank) {
    auto& left = reply.left[static_cast<size_t>(rank)];
    const auto report = world->group->report_of(rank);
    if (report) left = Json::parse(*report).get<std::vector<std::string>>();
    is_usable = is_usable && report && left.empty();
  }
  if (!is_usable) reply.left_running = end_kept_worlds();
  return reply;
}

// A host that died before it let any rank run died between two cases: no case caused that.
CaseReply ForkedServer::play_sim(const CaseRequest& request, int stop_descriptor) {
  affinity_.stay_on(options_.core);
  const bool was_there = host_.has_value();
  auto reply = play_in_host(request, stop_descriptor);
  const bool began =
      std::any_of(reply.group.ends.begin(), reply.group.ends.end(),
                  [](const auto& end) { return end.kind != ChildEnd::Kind::cut_off; });
  if (!was_there || began || reply.group.stopped) return reply;
  return play_in_host(request, stop_descriptor);
}

CaseReply ForkedServer::play_in_host(const CaseRequest& request, int stop_descriptor) {
  const int size = request.size;
  CaseReply reply;
  KeptWorld* const host =
      host_for(size, Clock::now() + request.limit + kMakingPatience, stop_descriptor);
  reply.group.stopped = host == nullptr;
  if (!host) return reply;
  run_on_kept(*host, request, stop_descriptor, reply);
  const auto played = std::exchange(reply.group, {});
  // All threads are in one process: the rank that ran is late, or has crashed.
  if (auto stacks = reply.stacks.extract(0))
    reply.stacks[std::max(0, memory_->running.load())] = std::move(stacks.mapped());
  const auto text = host->group->report_of(0);
  reply.group.stopped = played.stopped;
  reply.group.ends =
      ends_in_host(played.ends.front(), text.has_value(), memory_->running.load(), size);
  HostReport report{.left = {}, .choices = {}, .is_usable = false};
  if (text) report = host_report_in(*text);
  reply.left = std::move(report.left);
  reply.choices = std::move(report.choices);
  if (!report.is_usable || !host->group->is_whole()) reply.left_running = end_kept_worlds();
  return reply;
}

void ForkedServer::run_on_kept(KeptWorld& kept, const CaseRequest& request, int stop_descriptor,
                               CaseReply& reply) {
  kept.used = ++cases_;
  capture_ = kept.capture;
  const int size = request.size;
  memory_->clear(size);
  capture_->start(size);
  reply.group =
      kept.group->play(text_of(request), {.deadline = Clock::now() + request.limit,
                                          .grace = options_.grace,
                                          .stop_descriptor = stop_descriptor,
                                          .on_bad_end = [&] { memory_->exit_barrier.call_off(); },
                                          .on_deadline = look_at_stacks(reply)});
  add_stacks_of_crashes(reply);
  scratch_->remove();
}

// Processes that a case left running are now orphans, adopted by this process, whose children are
// also the other worlds. Returns how many they were.
int ForkedServer::end_kept_worlds() {
  warm_.clear();
  host_.reset();
  return end_descendants();
}

ForkedServer::KeptWorld* ForkedServer::warm_world(const CaseRequest& request,
                                                  Clock::time_point deadline, int stop_descriptor) {
  const int size = request.size;
  const auto key = std::pair(size, request.backend);
  if (!warm_.contains(key)) {
    make_room(size);
    memory_->clear(size);
    warm_.emplace(key, make_warm_world(request, stop_descriptor));
  }
  return ready(warm_.at(key), deadline, stop_descriptor,
               "a warm world of " + std::to_string(size) + " ranks on " + request.backend);
}

ForkedServer::KeptWorld* ForkedServer::host_for(int size, Clock::time_point deadline,
                                                int stop_descriptor) {
  if (!host_ || host_ranks_most_ < size) {
    host_.reset();
    host_ranks_most_ =
        static_cast<int>(std::bit_ceil(static_cast<unsigned>(std::max(size, kHostRanksLeast))));
    host_ = make_host(host_ranks_most_, stop_descriptor);
  }
  return ready(*host_, deadline, stop_descriptor, "a host for simulated worlds");
}

ForkedServer::KeptWorld* ForkedServer::ready(KeptWorld& kept, Clock::time_point deadline,
                                             int stop_descriptor, const std::string& what) {
  if (kept.used > 0) return &kept;
  const auto report =
      kept.group->wait_until_ready({.deadline = deadline, .stop_descriptor = stop_descriptor});
  if (kept.group->is_whole()) return &kept;
  end_kept_worlds();
  if (report.stopped) return nullptr;
  throw TierError(what + " could not be made");
}

std::vector<const KeptGroup*> ForkedServer::kept_groups() const {
  std::vector<const KeptGroup*> groups;
  for (const auto& [key, world] : warm_) groups.push_back(world.group.get());
  if (host_) groups.push_back(host_->group.get());
  return groups;
}

ForkedServer::KeptWorld ForkedServer::make_warm_world(const CaseRequest& request,
                                                      int stop_descriptor) {
  const int size = request.size;
  const DeviceBackend* const backend = device_backend(request);
  KeptWorld world{.capture = std::make_shared<Capture>(), .group = nullptr};
  world.capture->start(size);
  world.group = std::make_unique<KeptGroup>(
      *alone_, size,
      [&](int rank, KeptSocket& socket) {
        ::close(stop_descriptor);
        record_crash_in(memory_->crashes[static_cast<size_t>(rank)]);
        world.capture->redirect(rank);
        const RendezvousInMemory rendezvous(memory_->store, memory_->exit_barrier);
        return serve_rank(
            {.rank = rank,
             .size = size,
             .journal = memory_->journal(rank, size),
             .rendezvous = rendezvous,
             .backend = backend,
             .scratch = scratch_->path(),
             .next = [&] { return next_order(socket); },
             .done =
                 [&](const std::vector<std::string>& left) { socket.report(Json(left).dump()); }});
      },
      kept_groups());
  return world;
}

ForkedServer::KeptWorld ForkedServer::make_host(int ranks_most, int stop_descriptor) {
  KeptWorld host{.capture = std::make_shared<Capture>(), .group = nullptr};
  host.capture->start(ranks_most);
  host.group = std::make_unique<KeptGroup>(
      *alone_, 1,
      [&](int, KeptSocket& socket) {
        ::close(stop_descriptor);
        record_crash_in(memory_->crashes.front());
        return sim::serve_host(
            {.next = [&] { return next_order(socket); },
             .done = [&](const HostReport& report) { socket.report(text_of(report)); },
             .journal = [&](int rank, int size) { return memory_->journal(rank, size); },
             .scratch = scratch_->path(),
             .running = memory_->running,
             .redirect = [&](int rank) { host.capture->switch_to(rank); }});
      },
      kept_groups());
  return host;
}

std::optional<Order> ForkedServer::next_order(KeptSocket& socket) const {
  const auto text = socket.next();
  if (!text) return {};
  const auto request = case_request_in(*text);
  return Order{.scenario = scenario(request.scenario),
               .c = case_of(request),
               .subject = subjects_.at(request.subject),
               .limit = request.limit,
               .call_sites = request.call_sites,
               .choices = request.choices};
}

// Ends the worlds unused for longest, until `size` more ranks are not too many.
void ForkedServer::make_room(int size) {
  const auto ranks = [&] {
    int count = size;
    for (const auto& [key, world] : warm_) count += key.first;
    return count;
  };
  while (!warm_.empty() && ranks() > kKeptRanksMost)
    warm_.erase(std::min_element(warm_.begin(), warm_.end(), [](const auto& a, const auto& b) {
      return a.second.used < b.second.used;
    }));
}

}  // namespace lockstep
