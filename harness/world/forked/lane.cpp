#include "harness/world/forked/lane.h"

#include "harness/core/trace.h"
#include "harness/process/journal.h"
#include "harness/world/shared_memory_store.h"

#include <fstream>
#include <sched.h>
#include <set>
#include <tuple>

namespace lockstep {

namespace {

// What the server may take beyond the deadline: the grace, killing, and a machine that is busy.
constexpr std::chrono::seconds kServerSlack{60};

constexpr int kSchedulesMost = 20'000;

bool has_ending(const Frames& frames) {
  return !frames.frames.empty() && frames.frames.back().kind == FrameKind::ending;
}

bool exited_well(const ChildEnd& end) {
  return end == ChildEnd{ChildEnd::Kind::exited, kPlayed};
}

// A rank that wrote where it should not can have spoiled its journal. That is the case's doing, but
// no history can be told from it.
RankHistory read_rank(const JournalView& journal, int rank, const ChildEnd& process,
                      std::map<int, std::vector<uint64_t>>& sites) {
  const std::string who = "rank " + std::to_string(rank) + "'s journal";
  const Frames frames = journal.frames();
  sites = call_sites(frames);
  if (!frames.tail.empty()) throw TierError(who + " was damaged: " + frames.tail);
  try {
    RankHistory history = rank_history(frames, who);
    history.ending =
        merged_ending(history.ending, has_ending(frames), journal.overflowed(), process);
    return history;
  } catch (const FieldError& error) {
    throw TierError(error.what());
  }
}

std::vector<int> allowed_cores() {
  cpu_set_t allowed;
  std::vector<int> cores;
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return cores;
  for (int core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(static_cast<size_t>(core), &allowed)) cores.push_back(core);
  return cores;
}

// "... at tap.cpp:141", of the files through which a collective goes before it is on record.
bool is_watchers(const std::string& line) {
  for (const char* file : {" at tap.cpp:", " at call_sites.cpp:", " at stacks.cpp:"})
    if (line.find(file) != std::string::npos) return true;
  return false;
}

ZygoteServer served_by(const std::shared_ptr<ForkedServer>& server) {
  return {.prepare = [server] { server->prepare(); },
          .serve = [server](const std::string& request,
                            int stop) { return server->serve(request, stop); },
          .finish = [server] { server->finish(); }};
}

}  // namespace

Ending merged_ending(const Ending& recorded, bool has_ending, bool overflowed,
                     const ChildEnd& process) {
  if (process.kind == ChildEnd::Kind::signalled)
    return {Ending::Kind::signalled, signal_name(process.code)};
  if (has_ending) return recorded;
  if (process.kind == ChildEnd::Kind::stuck) return {Ending::Kind::stuck, ""};
  if (overflowed) return {Ending::Kind::overflowed, "it had more to record than its journal holds"};
  if (process.kind == ChildEnd::Kind::exited)
    return {Ending::Kind::exited, std::to_string(process.code)};
  return {Ending::Kind::cut_off, ""};
}

ForkedLane::ForkedLane(const std::vector<Scenario>& scenarios, const Subjects& subjects,
                       const ForkedOptions& options, std::span<const int> close_there)
    : options_(options),
      memory_(std::make_shared<LaneMemory>(options)),
      server_(served_by(std::make_shared<ForkedServer>(scenarios, subjects, options, memory_)),
              close_there) {}

History ForkedLane::play(const Scenario& scenario, const Case& c, const Setting& setting,
                         const PlayOptions& options) {
  require_playable(scenario, c, setting);
  const PlayRequest request{.scenario = c.scenario,
                            .subject = setting.subject,
                            .tier = setting.tier,
                            .size = world_size(c),
                            .limit = options.limit,
                            .call_sites = options.call_sites,
                            .case_value = c.value.dump()};
  // Who asks, the server and the host take turns: on one core none has to be woken on another.
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
  const std::string carried_by = is_sim ? "memory" : "gloo";
  if (setting.backend != carried_by)
    throw TierError("the " + setting.tier + " tier runs on " + carried_by + ", not on '" +
                    setting.backend + "'");
  const int size = world_size(c);
  if (!is_sim && size > options_.ranks_most)
    throw TierError("the " + setting.tier + " tier holds worlds of up to " +
                    std::to_string(options_.ranks_most) + " ranks; this case of " + scenario.name +
                    " wants " + std::to_string(size));
}

ForkedLane::Played ForkedLane::play_once(const PlayRequest& request) {
  auto reply = play_reply_in(
      server_.request(text_of(request), request.limit + options_.grace + kServerSlack));
  stacks_ = std::move(reply.stacks);
  if (reply.group.stopped) {
    tidy(reply);
    throw Interrupted();
  }
  Played played{history(reply), reply.choices};
  tidy(reply);
  return played;
}

// The first history that fails tells of all; else the last.
History ForkedLane::play_exhaustively(const Scenario& scenario, Case c, PlayRequest request) {
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

History ForkedLane::history(const PlayReply& reply) {
  std::vector<RankHistory> ranks;
  const auto size = static_cast<int>(reply.group.ends.size());
  call_sites_.assign(reply.group.ends.size(), {});
  for (int rank = 0; rank < size; ++rank) {
    const auto at = static_cast<size_t>(rank);
    ranks.push_back(read_rank(JournalView(memory_->journal(rank, size)), rank, reply.group.ends[at],
                              call_sites_[at]));
  }
  for (const auto& [rank, threads] : stacks_) {
    auto& ending = ranks[static_cast<size_t>(rank)].ending;
    const bool was_stopped = !threads.empty() && threads.front().instead.starts_with("stopped");
    if (ending.kind == Ending::Kind::stuck && was_stopped) ending.why = "it was stopped";
  }
  for (size_t rank = 0; rank < reply.left.size(); ++rank)
    for (const auto& what : reply.left[rank])
      ranks[rank].events.push_back({ranks[rank].last, LeftBehind{what}});
  if (reply.left_running > 0)
    ranks.front().events.push_back(
        {ranks.front().last,
         LeftBehind{std::to_string(reply.left_running) +
                    " process(es) that ranks of this world had started still ran when every rank "
                    "had gone"}});
  return History(std::move(ranks));
}

// Gives memory back. A rank that was killed may have been in the middle of a long record.
void ForkedLane::tidy(const PlayReply& reply) const {
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
  keep_call_sites(folder / "call_sites.txt", history);
  // All at once: a thousand ranks that wait stand at the same few places.
  std::set<uint64_t> addresses;
  for (const auto& [rank, threads] : stacks_)
    for (const auto& thread : threads) addresses.insert(thread.frames.begin(), thread.frames.end());
  const auto known = lines_at(addresses);
  for (const auto& [rank, threads] : stacks_) {
    std::ofstream out(folder / ("rank" + std::to_string(rank) + ".stacks"));
    for (const auto& thread : threads) {
      out << "thread " << thread.thread << " " << thread.name << "\n";
      for (const auto& line : lines_of(thread, known)) out << "  " << line << "\n";
    }
  }
}

// A call site's headline is its first line that is neither LibTorch's nor of what watches the
// ranks.
void ForkedLane::keep_call_sites(const std::filesystem::path& file, const History& history) const {
  std::vector<std::tuple<int, Collective, const std::vector<uint64_t>*>> known;
  std::set<uint64_t> addresses;
  for (const auto& [rank, issued] : issued_where_ranks_part(history)) {
    const auto& sites = call_sites_.at(static_cast<size_t>(rank));
    const auto site = sites.find(issued.site.number);
    if (site == sites.end()) continue;
    known.emplace_back(rank, issued, &site->second);
    addresses.insert(site->second.begin(), site->second.end());
  }
  if (known.empty()) return;
  const auto lines = lines_at(addresses);
  std::ofstream out(file);
  for (const auto& [rank, issued, site] : known) {
    std::vector<std::string> stack;
    std::string headline = "a place without lines";
    bool is_found = false;
    for (const auto address : *site)
      for (const auto& line : lines.at(address)) {
        stack.push_back(line.text);
        if (is_found || line.is_librarys || is_watchers(line.text)) continue;
        headline = line.text;
        is_found = true;
      }
    out << "rank " << rank << " issued " << place_of(issued.sequence, issued.group) << ", "
        << text_of(issued) << ", in " << headline << "\n";
    for (const auto& line : stack) out << "  " << line << "\n";
  }
}

void ForkedLane::stop() {
  server_.stop();
}

std::vector<std::unique_ptr<Tier>> forked_lanes(const std::vector<Scenario>& scenarios,
                                                const Subjects& subjects, int lanes,
                                                const ForkedOptions& options) {
  std::vector<std::unique_ptr<Tier>> all;
  std::vector<int> descriptors;
  const auto cores = allowed_cores();
  for (int lane = 0; lane < lanes; ++lane) {
    auto own = options;
    if (!own.core && !cores.empty()) own.core = cores[static_cast<size_t>(lane) % cores.size()];
    auto made = std::make_unique<ForkedLane>(scenarios, subjects, own, descriptors);
    descriptors.push_back(made->descriptor());
    all.push_back(std::move(made));
  }
  return all;
}

}  // namespace lockstep
