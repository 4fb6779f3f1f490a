#include "harness/worlds/forked/histories.h"

#include "harness/base/stack_text.h"
#include "harness/cases/tier.h"
#include "harness/verdict/trace.h"

#include <fstream>

namespace lockstep {

namespace {

bool has_ending(const Frames& frames) {
  return !frames.frames.empty() && frames.frames.back().kind == FrameKind::ending;
}

RankHistory history_of_rank(const RankRecords& records, int rank, const ChildEnd& process) {
  const std::string who = "rank " + std::to_string(rank) + "'s journal";
  if (!records.frames.tail.empty()) throw TierError(who + " was damaged: " + records.frames.tail);
  try {
    RankHistory history = rank_history(records.frames, who);
    history.ending =
        merged_ending(history.ending, has_ending(records.frames), records.overflowed, process);
    return history;
  } catch (const FieldError& error) {
    throw TierError(error.what());
  }
}

// "... at tap.cpp:141", for the files through which a collective passes before it is recorded.
bool is_watchers(const std::string& line) {
  for (const char* file : {" at tap.cpp:", " at call_sites.cpp:", " at stacks.cpp:"})
    if (line.find(file) != std::string::npos) return true;
  return false;
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

History history_of(const CaseReply& reply, const std::vector<RankRecords>& by_rank) {
  std::vector<RankHistory> ranks;
  for (size_t rank = 0; rank < by_rank.size(); ++rank)
    ranks.push_back(
        history_of_rank(by_rank[rank], static_cast<int>(rank), reply.group.ends.at(rank)));
  for (const auto& [rank, threads] : reply.stacks) {
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

DivergencePoints::DivergencePoints(const History& history, const std::vector<Sites>& by_rank) {
  for (const auto& [rank, issued] : issued_where_ranks_part(history)) {
    const auto& sites = by_rank.at(static_cast<size_t>(rank));
    const auto site = sites.find(issued.site.number);
    if (site != sites.end()) all.push_back({rank, issued, site->second});
  }
}

void DivergencePoints::add_addresses_of(int rank, std::set<uint64_t>& addresses) const {
  for (const auto& divergence_point : all)
    if (divergence_point.rank == rank)
      addresses.insert(divergence_point.site.begin(), divergence_point.site.end());
}

void write_call_sites(const std::filesystem::path& folder,
                      const DivergencePoints& divergence_points,
                      const std::function<const KnownFrames&(int rank)>& known) {
  if (divergence_points.all.empty()) return;
  std::ofstream out(folder / "call_sites.txt");
  for (const auto& [rank, issued, site] : divergence_points.all) {
    std::vector<std::string> stack;
    std::string headline = "a place without lines";
    bool is_found = false;
    for (const auto address : site)
      for (const auto& line : known(rank).at(address)) {
        stack.push_back(line.text);
        if (is_found || line.is_librarys || is_watchers(line.text)) continue;
        headline = short_frame(line.text);
        is_found = true;
      }
    out << "rank " << rank << " issued " << place_of(issued.sequence, issued.group) << ", "
        << text_of(issued) << ", in " << headline << "\n";
    for (const auto& line : stack) out << "  " << line << "\n";
  }
}

void write_stacks(const std::filesystem::path& folder, int rank,
                  const std::vector<ThreadStack>& threads, const KnownFrames& known) {
  std::ofstream out(folder / ("rank" + std::to_string(rank) + ".stacks"));
  for (const auto& thread : threads) {
    out << "thread " << thread.thread << " " << thread.name << "\n";
    for (const auto& line : lines_of(thread, known)) out << "  " << line << "\n";
  }
}

void add_addresses_of(const std::vector<ThreadStack>& threads, std::set<uint64_t>& addresses) {
  for (const auto& thread : threads) addresses.insert(thread.frames.begin(), thread.frames.end());
}

}  // namespace lockstep
