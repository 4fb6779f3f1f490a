#include "harness/worlds/forked/kept_worlds.h"

#include "harness/core/tier.h"

#include <algorithm>
#include <unistd.h>

namespace lockstep {

std::weak_ptr<KeptWorld> KeptWorlds::make(int processes, int ranks, const Serve& serve,
                                          int stop_descriptor) {
  const auto world = std::make_shared<KeptWorld>(KeptWorld{.capture = std::make_shared<Capture>()});
  world->capture->start(ranks);
  std::vector<const KeptGroup*> others;
  for (const auto& other : all_) others.push_back(other->group.get());
  world->group = std::make_unique<KeptGroup>(
      workplace_.alone(), processes,
      [&](int index, KeptSocket& socket) {
        ::close(stop_descriptor);
        record_crash_in(workplace_.memory().crashes[static_cast<size_t>(index)]);
        return serve(index, socket, *world->capture);
      },
      others);
  all_.push_back(world);
  return world;
}

void KeptWorlds::end(const std::weak_ptr<KeptWorld>& world) {
  std::erase(all_, world.lock());
}

int KeptWorlds::end_all_and_left_running() {
  end_all();
  return end_descendants();
}

bool KeptWorlds::wait_until_ready(const KeptWorld& world,
                                  std::chrono::steady_clock::time_point deadline,
                                  int stop_descriptor, const std::string& what) {
  if (world.used > 0) return true;
  const auto report =
      world.group->wait_until_ready({.deadline = deadline, .stop_descriptor = stop_descriptor});
  if (world.group->is_whole()) return true;
  end_all_and_left_running();
  if (report.stopped) return false;
  throw TierError(what + " could not be made");
}

void KeptWorlds::run(KeptWorld& world, const CaseRequest& request, const std::string& text,
                     int stop_descriptor, CaseReply& reply) {
  world.used = ++cases_;
  workplace_.capture = world.capture;
  workplace_.memory().clear(request.size);
  workplace_.capture->start(request.size);
  const auto deadline = std::chrono::steady_clock::now() + request.limit;
  reply.group = world.group->play(text, workplace_.watch(deadline, stop_descriptor, reply.stacks));
  workplace_.add_stacks_of_crashes(reply.group.ends, reply.stacks);
  workplace_.remove_scratch();
}

std::optional<CaseAssignment> next_case(KeptSocket& socket, const Workplace& workplace) {
  const auto text = socket.next();
  if (!text) return {};
  const auto request = lane_request_in(*text).run.value();
  return CaseAssignment{.scenario = workplace.scenario(request.scenario),
                        .c = {request.scenario, Json::parse(request.case_value)},
                        .subject = workplace.subject(request.subject),
                        .limit = request.limit,
                        .call_sites = request.call_sites,
                        .choices = request.choices};
}

}  // namespace lockstep
