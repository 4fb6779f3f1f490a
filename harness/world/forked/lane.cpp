#include "harness/world/forked/lane.h"

#include "harness/core/text.h"
#include "harness/recorder/journal.h"
#include "harness/world/shared_memory_store.h"

#include <algorithm>
#include <sched.h>
#include <set>

namespace lockstep {

namespace {

// The server's time beyond the deadline: the grace, killing, and a busy machine.
constexpr std::chrono::seconds kServerSlack{60};

constexpr int kSchedulesMost = 20'000;

bool exited_well(const ChildEnd& end) {
  return end == ChildEnd{ChildEnd::Kind::exited, kPlayed};
}

std::vector<int> allowed_cores() {
  cpu_set_t allowed;
  std::vector<int> cores;
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return cores;
  for (int core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(static_cast<size_t>(core), &allowed)) cores.push_back(core);
  return cores;
}

ZygoteServer served_by(const std::shared_ptr<ForkedServer>& server) {
  return {.prepare = [server] { server->prepare(); },
          .serve = [server](const std::string& request,
                            int stop) { return server->serve(request, stop); },
          .finish = [server] { server->finish(); }};
}

}  // namespace

ForkedLane::ForkedLane(const SingleThreaded& alone, const std::vector<Scenario>& scenarios,
                       const Subjects& subjects, const ForkedOptions& options,
                       std::span<const int> close_there)
    : options_(options),
      memory_(std::make_shared<LaneMemory>(options)),
      server_(alone,
              served_by(std::make_shared<ForkedServer>(scenarios, subjects, options, memory_)),
              close_there) {}

History ForkedLane::play(const Scenario& scenario, const Case& c, const Setting& setting,
                         const CaseRunOptions& options) {
  require_playable(scenario, c, setting);
  const CaseRequest request{.scenario = c.scenario,
                            .subject = setting.subject,
                            .tier = setting.tier,
                            .backend = setting.backend,
                            .size = world_size(c),
                            .limit = options.limit,
                            .call_sites = options.call_sites,
                            .case_value = c.value.dump()};
  // The runner, the server and the host run in turn: on one core none has to be woken on another.
  affinity_.stay_on(setting.tier == "sim" ? options_.core : std::nullopt);
  if (setting.tier == "sim" && world_of(c).schedule.policy == "exhaustive")
    return play_exhaustively(scenario, c, request);
  return play_once(request).history;
}

void ForkedLane::require_playable(const Scenario& scenario, const Case& c,
                                  const Setting& setting) const {
  const bool is_sim = setting.tier == "sim";
  if (!is_sim && setting.tier != "cold" && setting.tier != "warm")
    throw TierError("a forked lane plays cold, warm and sim worlds, not '" + setting.tier + "'");
  const auto names = is_sim ? std::vector<std::string>{"memory"} : names_of(options_.backends);
  if (std::find(names.begin(), names.end(), setting.backend) == names.end())
    throw TierError("the " + setting.tier + " tier runs on " + joined(names, ", ") + ", not on '" +
                    setting.backend + "'");
  const int size = world_size(c);
  if (!is_sim && size > options_.ranks_most)
    throw TierError("the " + setting.tier + " tier holds worlds of up to " +
                    std::to_string(options_.ranks_most) + " ranks; this case of " + scenario.name +
                    " wants " + std::to_string(size));
}

ForkedLane::Played ForkedLane::play_once(const CaseRequest& request) {
  auto reply = case_reply_in(
      server_.request(text_of(request), request.limit + options_.grace + kServerSlack));
  stacks_ = reply.stacks;
  if (reply.group.stopped) {
    tidy(reply);
    throw Interrupted();
  }
  Played played{history(reply), reply.choices};
  tidy(reply);
  return played;
}

// The first history that fails is returned; else the last.
History ForkedLane::play_exhaustively(const Scenario& scenario, Case c, CaseRequest request) {
  auto& schedule = c.value["world"]["schedule"];
  schedule["policy"] = "listed";
  request.choices = true;
  for (int played = 0; played < kSchedulesMost; ++played) {
    request.case_value = c.value.dump();
    auto once = play_once(request);
    if (is_failure(judge(scenario, c, once.history).kind)) return std::move(once.history);
    const auto next = sim::next_choices(once.choices);
    if (next.empty()) return std::move(once.history);
    schedule["choices"] = next;
  }
  throw TierError("this world can be scheduled in more than " + std::to_string(kSchedulesMost) +
                  " ways, which is too many to try all");
}

History ForkedLane::history(const CaseReply& reply) {
  std::vector<RankRecords> by_rank;
  const auto size = static_cast<int>(reply.group.ends.size());
  call_sites_.clear();
  for (int rank = 0; rank < size; ++rank) {
    const JournalView journal(memory_->journal(rank, size));
    by_rank.push_back({journal.frames(), journal.overflowed()});
    call_sites_.push_back(call_sites(by_rank.back().frames));
  }
  return history_of(reply, by_rank);
}

// Releases memory. A rank that was killed may have been in the middle of a long record.
void ForkedLane::tidy(const CaseReply& reply) const {
  const auto size = static_cast<int>(reply.group.ends.size());
  for (int rank = 0; rank < size; ++rank) {
    const auto journal = memory_->journal(rank, size);
    const auto used = sizeof(JournalHead) + JournalView(journal).bytes().size();
    const bool is_whole = exited_well(reply.group.ends[static_cast<size_t>(rank)]);
    memory_->region.release(is_whole ? journal.first(used) : journal);
  }
  memory_->region.release(memory_->store.first(SharedMemoryStore::used(memory_->store)));
}

void ForkedLane::keep_output(const std::filesystem::path& folder, const History& history) {
  server_.request(keep_request(std::filesystem::absolute(folder)), kServerSlack);
  const DivergencePoints divergence_points(history, call_sites_);
  // All at once: a thousand waiting ranks have the same few stacks.
  std::set<uint64_t> addresses;
  for (int rank = 0; rank < history.size(); ++rank)
    divergence_points.add_addresses_of(rank, addresses);
  for (const auto& [rank, threads] : stacks_) add_addresses_of(threads, addresses);
  const auto known = lines_at(addresses);
  write_call_sites(folder, divergence_points, [&](int) -> const KnownFrames& { return known; });
  for (const auto& [rank, threads] : stacks_) write_stacks(folder, rank, threads, known);
}

void ForkedLane::stop() {
  server_.stop();
}

std::vector<std::unique_ptr<Tier>> forked_lanes(SingleThreaded alone,
                                                const std::vector<Scenario>& scenarios,
                                                const Subjects& subjects, int lanes,
                                                const ForkedOptions& options) {
  std::vector<std::unique_ptr<Tier>> all;
  std::vector<int> descriptors;
  const auto cores = allowed_cores();
  for (int lane = 0; lane < lanes; ++lane) {
    auto own = options;
    if (!own.core && !cores.empty()) own.core = cores[static_cast<size_t>(lane) % cores.size()];
    auto made = std::make_unique<ForkedLane>(alone, scenarios, subjects, own, descriptors);
    descriptors.push_back(made->descriptor());
    all.push_back(std::move(made));
  }
  return all;
}

}  // namespace lockstep
