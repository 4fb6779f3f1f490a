#include "harness/worlds/sim/world.h"

#include "harness/base/text.h"
#include "harness/process/child_group.h"
#include "harness/process/interpreter_lock.h"
#include "harness/worlds/ambient.h"
#include "harness/worlds/rank_run.h"
#include "harness/worlds/sim/compute_time.h"
#include "harness/worlds/sim/store.h"
#include "harness/worlds/sim/transport.h"
#include "harness/worlds/subject.h"

#include <ATen/ThreadLocalState.h>
#include <ATen/autocast_mode.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/torch.h>

#include <cfenv>
#include <csignal>
#include <optional>
#include <utility>

namespace lockstep::sim {

namespace {

using Milliseconds = std::chrono::milliseconds;

// A store's own timeouts outlast the world's: a rank that waits in vain is stuck.
constexpr std::chrono::hours kStorePatience{24};

// The state of one world. Frozen ranks refer to it, so with them it is never destroyed.
class World {
 public:
  explicit World(const SimTask& task)
      : task_(task),
        assignment_(task.assignment),
        spec_(assignment_.world),
        links_(spec_.timing),
        scheduler_(task.rank_threads, spec_.size, Chooser(spec_.schedule, spec_.size),
                   assignment_.request.time_limit,
                   {.begin = [this](int rank) { begin_turn(rank); },
                    .end = [this](int rank) { end_turn(rank); },
                    .are_of_ranks_alone = task.refuses_threads}),
        ranks_(static_cast<size_t>(spec_.size)) {
    for (int rank = 0; rank < spec_.size; ++rank)
      at(rank).ambient.emplace(std::map<std::string, std::string>{
          {"RANK", std::to_string(rank)}, {"WORLD_SIZE", std::to_string(spec_.size)}});
  }

  SimReport run() {
    const auto ends = scheduler_.run([this](int rank) { live(rank); });
    task_.running.store(-1);
    SimReport report{.left = {}, .choices = scheduler_.chooser().choices()};
    for (int rank = 0; rank < spec_.size; ++rank) {
      const auto& standing = ends[static_cast<size_t>(rank)];
      report.left.push_back(at(rank).left);
      if (standing.state == Scheduler::State::ended) continue;
      report.has_frozen_ranks = true;
      if (standing.state == Scheduler::State::waiting) end_waiting(rank, standing.waits_for);
      // The last record, except for a rank that has one: it was killed, or it exited.
      if (standing.state == Scheduler::State::parked)
        at(rank).run->end({Ending::Kind::stuck, kStopped});
    }
    return report;
  }

 private:
  struct Rank {
    std::optional<RankAmbient> ambient;
    std::unique_ptr<RankRun> run;
    std::vector<std::string> left;
    void* interpreter_lock = nullptr;  // that it held when it stopped
  };
  Rank& at(int rank) { return ranks_[static_cast<size_t>(rank)]; }

  void begin_turn(int rank) {
    task_.running.store(rank);
    task_.redirect(rank);
    at(rank).ambient->swap();
    take_interpreter_lock(std::exchange(at(rank).interpreter_lock, nullptr));
  }
  void end_turn(int rank) {
    at(rank).interpreter_lock = release_interpreter_lock();
    at(rank).ambient->swap();
  }

  void live(int rank) {
    // The thread has run other cases, which may have left something in it.
    const at::ThreadLocalStateGuard as_new(as_new_);
    at::autocast::set_autocast_cache_enabled(true);
    std::fesetenv(&floats_);
    if (at::get_num_threads() != 1) at::set_num_threads(1);
    const ComputeTime time(spec_.timing, [this, rank](Nanoseconds work) {
      scheduler_.advance(links_.computing(rank, work));
    });
    auto& self = at(rank);
    self.run = std::make_unique<RankRun>(assignment_, parts_of(rank));
    const Ending ending = self.run->run();
    if (!ended_well(ending)) return leave(rank, ending);
    if (const auto pending = self.run->pending_collectives(); pending > 0)
      self.left = {counted(pending, "collective") + " still under way"};
    self.run.reset();
  }

  RankRunParts parts_of(int rank) {
    return {.rank = rank,
            .size = spec_.size,
            .journal = task_.journals[static_cast<size_t>(rank)],
            .store = c10::make_intrusive<Store>(store_, scheduler_, kStorePatience),
            .make_group =
                [this, rank](const std::vector<int>& ranks, const std::shared_ptr<TapLog>& log) {
                  return group_of(ranks, rank, log);
                },
            .scratch = task_.scratch,
            .call_sites = assignment_.request.call_sites,
            .planned_failures = failures_planned_for(rank),
            .clock = [this] { return scheduler_.now().count(); }};
  }

  c10::intrusive_ptr<c10d::ProcessGroup> group_of(const std::vector<int>& ranks, int rank,
                                                  const std::shared_ptr<TapLog>& log) {
    const auto member =
        static_cast<int>(std::find(ranks.begin(), ranks.end(), rank) - ranks.begin());
    // Keys of a group are its own, as in worlds of processes.
    const auto store = c10::make_intrusive<Store>(store_, scheduler_, kStorePatience);
    return SharedGroup::joined_by(shared_group(log->group(), ranks), member,
                                  c10::make_intrusive<c10d::PrefixStore>(log->group(), store), log);
  }

  SharedGroup::Pointer shared_group(const std::string& name, const std::vector<int>& ranks) {
    auto& group = groups_[{name, ranks}];
    if (!group) {
      group = std::make_shared<SharedGroup>(
          name, ranks, ReductionOrder{spec_.reduction, spec_.schedule.seed},
          Arrival(spec_.schedule), links_, scheduler_,
          [this](const auto& other, const auto& of) { return shared_group(other, of); });
      for (const auto& [gone, how] : gone_) group->leave(gone, how);
    }
    return group;
  }

  // A rank that is killed or exits never runs again; its peers notice it like a process's end.
  PlannedFailures failures_planned_for(int rank) {
    const auto freeze = [this, rank](std::optional<Ending> ending) {
      if (ending) {
        at(rank).run->end(*ending);
        leave(rank, *ending);
      }
      scheduler_.park();
    };
    return {.delay =
                [this](Milliseconds time) {
                  scheduler_.advance(time);
                  scheduler_.yield();
                },
            .kill =
                [freeze] {
                  freeze(Ending{Ending::Kind::signalled, signal_name(SIGKILL)});
                },
            .stop = [freeze] { freeze({}); },
            .exit =
                [freeze](int status) {
                  freeze(Ending{Ending::Kind::exited, std::to_string(status)});
                }};
  }

  void leave(int rank, const Ending& ending) {
    std::string how = std::string(name_of(ending.kind));
    if (!ending.why.empty()) how += " (" + ending.why + ")";
    gone_[rank] = how;
    for (const auto& [key, group] : groups_) group->leave(rank, how);
  }

  // Where another rank ended badly, waiting ranks were merely left without it.
  void end_waiting(int rank, const std::string& what) {
    auto& run = at(rank).run;
    if (!run) return;
    if (gone_.empty())
      run->end({Ending::Kind::stuck, "nobody can run any more; it waits for " + what});
    else
      run->end({Ending::Kind::cut_off, ""});
  }

  const SimTask task_;
  // The state of the host's own thread, in which no rank runs. A thread inherits its rounding mode,
  // and whether small floats are flushed to zero, from the thread that made it.
  const at::ThreadLocalState as_new_;
  const std::fenv_t floats_ = [] {
    std::fenv_t floats;
    std::fegetenv(&floats);
    return floats;
  }();
  const CaseAssignment& assignment_;
  const WorldSpec& spec_;
  const Links links_;
  Scheduler scheduler_;
  std::vector<Rank> ranks_;
  const std::shared_ptr<StoreContents> store_ = std::make_shared<StoreContents>();
  // By name and ranks.
  std::map<std::pair<std::string, std::vector<int>>, SharedGroup::Pointer> groups_;
  std::map<int, std::string> gone_;  // by rank
};

}  // namespace

SimReport run_simulated(const SimTask& task) {
  auto world = std::make_unique<World>(task);
  auto report = world->run();
  if (report.has_frozen_ranks) world.release();
  return report;
}

}  // namespace lockstep::sim
