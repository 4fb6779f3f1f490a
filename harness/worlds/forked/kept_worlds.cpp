#include "harness/worlds/forked/kept_worlds.h"

#include "harness/base/text.h"
#include "harness/cases/tier.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <unistd.h>

namespace lockstep {

namespace {

// The last lines of `text`, in one.
std::string last_lines(const std::string& text) {
  constexpr size_t kLinesMost = 5;
  auto lines = split(text, '\n');
  std::erase(lines, "");
  if (lines.size() > kLinesMost)
    lines.erase(lines.begin(), lines.end() - static_cast<std::ptrdiff_t>(kLinesMost));
  return excerpt(joined(lines, " | "));
}

std::string text_of(const ChildEnd& end) {
  if (end.kind == ChildEnd::Kind::signalled) return "was ended by " + signal_name(end.code);
  if (end.kind == ChildEnd::Kind::exited && end.code != 0)
    return "exited with status " + std::to_string(end.code);
  return "was not ready in time";
}

// Names the process that could not make a world, and why.
std::string why_not_ready(const KeptGroup::Readiness& made, const Capture& output) {
  const auto& ends = made.report.ends;
  const auto who = [&](size_t index) {
    return ends.size() == 1 ? std::string("its process") : "rank " + std::to_string(index);
  };
  const auto& problems = made.problems;
  const auto problem =
      std::find_if(problems.begin(), problems.end(), [](const auto& why) { return !why.empty(); });
  if (problem != problems.end())
    return who(static_cast<size_t>(problem - problems.begin())) + ": " + last_lines(*problem);
  const auto late =
      std::find_if(ends.begin(), ends.end(), [](const ChildEnd& end) { return end != ChildEnd(); });
  const auto index =
      static_cast<size_t>(made.report.first_bad >= 0 ? made.report.first_bad : late - ends.begin());
  const auto wrote = last_lines(output.of(static_cast<int>(index)).err);
  return who(index) + " " + text_of(ends[index]) + (wrote.empty() ? "" : ", and wrote: " + wrote);
}

// Runs `serve`. Its exception before it is ready is the reason why its world is not made.
int served(const std::function<int()>& serve, KeptSocket& socket) {
  try {
    return serve();
  } catch (const c10::Error& error) {
    if (!socket.report_problem(error.what_without_backtrace())) throw;
  } catch (const std::exception& error) {
    if (!socket.report_problem(error.what())) throw;
  }
  return 1;
}

}  // namespace

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
        return served([&] { return serve(index, socket, *world->capture); }, socket);
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
  const auto made =
      world.group->wait_until_ready({.deadline = deadline, .stop_descriptor = stop_descriptor});
  if (made.is_ready) return true;
  const auto why = made.report.stopped ? "" : why_not_ready(made, *world.capture);
  end_all_and_left_running();
  if (made.report.stopped) return false;
  throw TierError(what + " could not be made: " + why);
}

void KeptWorlds::run(KeptWorld& world, const CaseRequest& request, const std::string& text,
                     int stop_descriptor, CaseReply& reply) {
  world.used = ++cases_;
  workplace_.capture = world.capture;
  workplace_.memory().clear(request.size);
  workplace_.capture->start(request.size);
  const auto deadline = std::chrono::steady_clock::now() + request.time_limit;
  reply.group = world.group->run(text, workplace_.watch(deadline, stop_descriptor, reply.stacks));
  workplace_.add_stacks_of_crashes(reply.group.ends, reply.stacks);
  workplace_.remove_scratch();
}

std::optional<CaseAssignment> next_case(KeptSocket& socket, const Workplace& workplace) {
  const auto text = socket.next();
  if (!text) return {};
  return workplace.assignment_of(lane_request_in(*text).run.value());
}

}  // namespace lockstep
