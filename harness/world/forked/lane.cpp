#include "harness/world/forked/lane.h"

#include "harness/process/journal.h"
#include "harness/world/shared_memory_store.h"

namespace lockstep {

namespace {

// What the server may take beyond the deadline: the grace, killing, and a machine that is busy.
constexpr std::chrono::seconds kServerSlack{60};

bool has_ending(const Frames& frames) {
  return !frames.frames.empty() && frames.frames.back().kind == FrameKind::ending;
}

bool exited_well(const ChildEnd& end) {
  return end == ChildEnd{ChildEnd::Kind::exited, kPlayed};
}

// A rank that wrote where it should not can have spoiled its journal. That is the case's doing, but
// no history can be told from it.
RankHistory read_rank(const JournalView& journal, int rank, const ChildEnd& process) {
  const std::string who = "rank " + std::to_string(rank) + "'s journal";
  const Frames frames = journal.frames();
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
                         Deadline deadline) {
  if (setting.tier != "cold" && setting.tier != "warm")
    throw TierError("a forked lane plays cold and warm worlds, not '" + setting.tier + "'");
  if (setting.backend != "gloo")
    throw TierError("the " + setting.tier + " tier runs on gloo, not on '" + setting.backend + "'");
  const int size = world_size(c);
  if (size > options_.ranks_most)
    throw TierError("the " + setting.tier + " tier holds worlds of up to " +
                    std::to_string(options_.ranks_most) + " ranks; this case of " + scenario.name +
                    " wants " + std::to_string(size));
  const auto reply = play_reply_in(server_.request(
      play_request(
          {.c = c, .subject = setting.subject, .tier = setting.tier, .limit = deadline.limit}),
      deadline.limit + options_.grace + kServerSlack));
  if (reply.group.stopped) {
    tidy(reply);
    throw Interrupted();
  }
  auto seen = history(reply);
  tidy(reply);
  return seen;
}

History ForkedLane::history(const PlayReply& reply) const {
  std::vector<RankHistory> ranks;
  for (size_t rank = 0; rank < reply.group.ends.size(); ++rank)
    ranks.push_back(read_rank(JournalView(memory_->journals[rank]), static_cast<int>(rank),
                              reply.group.ends[rank]));
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
  for (size_t rank = 0; rank < reply.group.ends.size(); ++rank) {
    const auto journal = memory_->journals[rank];
    const auto used = sizeof(JournalHead) + JournalView(journal).bytes().size();
    memory_->region.release(exited_well(reply.group.ends[rank]) ? journal.first(used) : journal);
  }
  memory_->region.release(memory_->store.first(SharedMemoryStore::used(memory_->store)));
}

void ForkedLane::keep_output(const std::filesystem::path& folder) {
  server_.request(keep_request(std::filesystem::absolute(folder)), kServerSlack);
}

void ForkedLane::stop() {
  server_.stop();
}

std::vector<std::unique_ptr<Tier>> forked_lanes(const std::vector<Scenario>& scenarios,
                                                const Subjects& subjects, int lanes,
                                                const ForkedOptions& options) {
  std::vector<std::unique_ptr<Tier>> all;
  std::vector<int> descriptors;
  for (int lane = 0; lane < lanes; ++lane) {
    auto made = std::make_unique<ForkedLane>(scenarios, subjects, options, descriptors);
    descriptors.push_back(made->descriptor());
    all.push_back(std::move(made));
  }
  return all;
}

}  // namespace lockstep
