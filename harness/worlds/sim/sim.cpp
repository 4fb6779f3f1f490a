#include "harness/worlds/sim/sim.h"

#include "harness/worlds/forked/rank.h"
#include "harness/worlds/sim/every_schedule.h"
#include "harness/worlds/sim/host.h"
#include "harness/worlds/wire.h"

#include <algorithm>
#include <bit>
#include <csignal>
#include <utility>

namespace lockstep {

namespace {

constexpr int kSchedulesMost = 20'000;

// A host has room for worlds of at least this many ranks.
constexpr int kHostRanksLeast = 16;

// How the ranks of a simulated world ended when their host did: the one that ran as the host did,
// the others cut off. Those of a host that lives on have reported themselves how they ended.
std::vector<ChildEnd> ends_in_host(const ChildEnd& host, bool is_alive, int running, int size) {
  std::vector<ChildEnd> ends(static_cast<size_t>(size), {ChildEnd::Kind::exited, kCaseHasRun});
  if (is_alive) return ends;
  for (int rank = 0; rank < size; ++rank)
    ends[static_cast<size_t>(rank)] =
        rank == running ? host : ChildEnd{ChildEnd::Kind::cut_off, SIGKILL};
  return ends;
}

}  // namespace

// The runner, the server and the host run in turn: on one core none has to be woken on another.
History SimTier::run(const Scenario& scenario, const Case& c, const Setting& setting,
                     const CaseRunOptions& options) {
  const auto request = request_for(scenario, c, setting, options);
  lane().affinity.pin_to(lane().options().core);
  if (world_of(c).schedule.policy == SchedulePolicy::exhaustive)
    return run_exhaustively(scenario, c, request);
  return lane().run(request).history;
}

History SimTier::run_exhaustively(const Scenario& scenario, Case c, CaseRequest request) {
  auto& schedule = c.value["world"]["schedule"];
  schedule["policy"] = word_of(SchedulePolicy::listed);
  request.choices = true;
  sim::EverySchedule every;
  for (;;) {
    const auto choices = every.next();
    schedule["choices"] = choices;
    request.case_value = c.value.dump();
    auto once = lane().run(request);
    every.made(std::move(once.choices));
    const bool fails = is_failure(judge(scenario, c, once.history).kind);
    if (fails || every.is_complete() || every.count() == kSchedulesMost)
      return History(once.history.ranks(), {.count = every.count(),
                                            .complete = every.is_complete(),
                                            .decisions = every.decisions(),
                                            .choices = choices});
  }
}

// A host that died before it let any rank run died between two cases: no case caused that.
CaseReply SimServer::run(const CaseRequest& request, const std::string& text, int stop_descriptor) {
  workplace_.affinity.pin_to(workplace_.options().core);
  const bool was_there = !host_.expired();
  auto reply = run_in_host(request, text, stop_descriptor);
  const bool began =
      std::any_of(reply.group.ends.begin(), reply.group.ends.end(),
                  [](const auto& end) { return end.kind != ChildEnd::Kind::cut_off; });
  if (!was_there || began || reply.group.stopped) return reply;
  return run_in_host(request, text, stop_descriptor);
}

CaseReply SimServer::run_in_host(const CaseRequest& request, const std::string& text,
                                 int stop_descriptor) {
  const int size = request.size;
  CaseReply reply;
  const auto deadline = std::chrono::steady_clock::now() + request.time_limit + kMakingPatience;
  KeptWorld& host = host_for(size, stop_descriptor);
  reply.group.stopped =
      !kept_.wait_until_ready(host, deadline, stop_descriptor, "a host for simulated worlds");
  if (reply.group.stopped) return reply;
  kept_.run(host, request, text, stop_descriptor, reply);
  const auto of_host = std::exchange(reply.group, {});
  const int running = workplace_.memory().running.load();
  // All threads are in one process: the rank that ran is late, or has crashed.
  if (auto stacks = reply.stacks.extract(0))
    reply.stacks[std::max(0, running)] = std::move(stacks.mapped());
  const auto said = host.group->report_of(0);
  reply.group.stopped = of_host.stopped;
  reply.group.ends = ends_in_host(of_host.ends.front(), said.has_value(), running, size);
  HostReport report{.is_usable = false};
  if (said) report = from_wire<HostReport>(*said, "the report of a host");
  reply.left = std::move(report.left);
  reply.choices = std::move(report.choices);
  if (!report.is_usable || !host.group->is_whole())
    reply.left_running = kept_.end_all_and_left_running();
  if (!report.problem.empty()) throw TierError(report.problem);
  return reply;
}

KeptWorld& SimServer::host_for(int size, int stop_descriptor) {
  if (host_.expired() || host_ranks_most_ < size) {
    kept_.end(host_);
    host_ranks_most_ =
        static_cast<int>(std::bit_ceil(static_cast<unsigned>(std::max(size, kHostRanksLeast))));
    host_ = make(host_ranks_most_, stop_descriptor);
  }
  return *host_.lock();
}

std::weak_ptr<KeptWorld> SimServer::make(int ranks_most, int stop_descriptor) {
  return kept_.make(
      1, ranks_most,
      [&](int, KeptSocket& socket, Capture& capture) {
        return sim::serve_host(
            {.next = [&] { return next_case(socket, workplace_); },
             .done = [&](const HostReport& report) { socket.report(to_wire(report)); },
             .journal = [&](int rank, int size) { return workplace_.memory().journal(rank, size); },
             .scratch = workplace_.scratch(),
             .running = workplace_.memory().running,
             .redirect = [&](int rank) { capture.switch_to(rank); }});
      },
      stop_descriptor);
}

}  // namespace lockstep
