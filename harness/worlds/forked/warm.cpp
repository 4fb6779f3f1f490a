#include "harness/worlds/forked/warm.h"

#include "harness/worlds/forked/rank.h"
#include "harness/worlds/wire.h"

#include <algorithm>

namespace lockstep {

namespace {

// Ranks of warm worlds that a lane keeps alive; more only cost memory.
constexpr int kKeptRanksMost = 16;

}  // namespace

CaseReply WarmServer::run(const CaseRequest& request, const std::string& text,
                          int stop_descriptor) {
  CaseReply reply;
  workplace_.affinity.unpin();
  const auto deadline = std::chrono::steady_clock::now() + request.time_limit + kMakingPatience;
  KeptWorld& world = world_for(request, stop_descriptor);
  reply.group.stopped = !kept_.wait_until_ready(
      world, deadline, stop_descriptor,
      "a warm world of " + std::to_string(request.size) + " ranks on " + request.backend);
  if (reply.group.stopped) return reply;
  kept_.run(world, request, text, stop_descriptor, reply);
  reply.left.resize(static_cast<size_t>(request.size));
  bool is_usable = world.group->is_whole();
  for (int rank = 0; rank < request.size; ++rank) {
    auto& left = reply.left[static_cast<size_t>(rank)];
    const auto report = world.group->report_of(rank);
    if (report) left = from_wire<RankReport>(*report, "the report of a rank").left;
    is_usable = is_usable && report && left.empty();
  }
  if (!is_usable) reply.left_running = kept_.end_all_and_left_running();
  return reply;
}

KeptWorld& WarmServer::world_for(const CaseRequest& request, int stop_descriptor) {
  std::erase_if(worlds_, [](const auto& world) { return world.second.expired(); });
  const auto key = std::pair(request.size, request.backend);
  if (!worlds_.contains(key)) {
    make_room(request.size);
    workplace_.memory().clear(request.size);
    worlds_[key] = make(request, stop_descriptor);
  }
  return *worlds_.at(key).lock();
}

std::weak_ptr<KeptWorld> WarmServer::make(const CaseRequest& request, int stop_descriptor) {
  const int size = request.size;
  const auto& memory = workplace_.memory();
  const DeviceBackend* const backend = workplace_.device_backend(request.backend);
  return kept_.make(
      size, size,
      [&](int rank, KeptSocket& socket, Capture& capture) {
        capture.redirect(rank);
        const RendezvousInMemory rendezvous(memory.store, memory.exit_barrier);
        return serve_rank(
            {.rank = rank,
             .size = size,
             .journal = memory.journal(rank, size),
             .rendezvous = rendezvous,
             .backend = backend,
             .scratch = workplace_.scratch()},
            [&] { return next_case(socket, workplace_); },
            [&](const std::vector<std::string>& left) {
              socket.report(to_wire(RankReport{left}));
            });
      },
      stop_descriptor);
}

// Ends the worlds unused for longest, until `size` more ranks are not too many.
void WarmServer::make_room(int size) {
  const auto ranks = [&] {
    int count = size;
    for (const auto& [key, world] : worlds_) count += key.first;
    return count;
  };
  while (!worlds_.empty() && ranks() > kKeptRanksMost) {
    const auto oldest = std::min_element(
        worlds_.begin(), worlds_.end(),
        [](const auto& a, const auto& b) { return a.second.lock()->used < b.second.lock()->used; });
    kept_.end(oldest->second);
    worlds_.erase(oldest);
  }
}

}  // namespace lockstep
