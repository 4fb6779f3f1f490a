#include "harness/worlds/forked/histories.h"

#include "harness/cases/tier.h"
#include "harness/verdict/trace.h"

#include <algorithm>
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

// True for the files through which a collective passes before it is recorded.
bool is_watchers(const StackFrame& frame) {
  return frame.file == "tap.cpp" || frame.file == "call_sites.cpp" || frame.file == "stacks.cpp";
}

// The program's own frame, innermost first; null where none has a line.
const StackFrame* own_frame(const Stack& stack) {
  const auto own = std::find_if(stack.begin(), stack.end(), [](const StackFrame& frame) {
    return frame.origin == StackFrame::Origin::program && !is_watchers(frame);
  });
  return own == stack.end() ? nullptr : &*own;
}

// The lines of a thread's stack, or the kernel's state of it.
std::vector<std::string> lines_of(const ThreadStack& thread, const KnownFrames& known) {
  if (thread.frames.empty()) return {thread.instead};
  std::vector<std::string> lines;
  for (const auto& frame : frames_of(thread, known)) lines.push_back(frame.text());
  return lines;
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
    const bool was_stopped = !threads.empty() && threads.front().is_stopped;
    if (ending.kind == Ending::Kind::stuck && was_stopped) ending.why = kStopped;
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

std::vector<std::string> write_call_sites(
    const std::filesystem::path& folder, const DivergencePoints& divergence_points,
    const std::function<const KnownFrames&(int rank)>& known) {
  if (divergence_points.all.empty()) return {};
  std::ofstream out(folder / "call_sites.txt");
  std::vector<std::string> lines;
  for (const auto& [rank, issued, site] : divergence_points.all) {
    const auto stack = frames_of({.frames = site}, known(rank));
    const auto* own = own_frame(stack);
    const auto line = "rank " + std::to_string(rank) + " issued " +
                      place_of(issued.sequence, issued.group) + ", " + text_of(issued) + ", in " +
                      (own ? own->short_text() : "a place without lines");
    out << line << "\n";
    for (const auto& frame : stack) out << "  " << frame.text() << "\n";
    // A thread of a library begins in libc, of which the line would not help.
    if (own && own->function != "start_thread") lines.push_back(line);
  }
  return lines;
}

std::vector<std::string> write_stacks(const std::filesystem::path& folder, int rank,
                                      const std::vector<ThreadStack>& threads,
                                      const KnownFrames& known) {
  const auto name = "rank " + std::to_string(rank);
  std::ofstream out(folder / ("rank" + std::to_string(rank) + ".stacks"));
  for (const auto& thread : threads) {
    out << "thread " << thread.thread << " " << thread.name << "\n";
    for (const auto& line : lines_of(thread, known)) out << "  " << line << "\n";
  }
  if (threads.empty()) return {};
  const auto named = std::ranges::find(threads, name, &ThreadStack::name);
  const auto& own = named == threads.end() ? threads.front() : *named;
  return own.frames.empty() ? std::vector{own.instead} : story_of(frames_of(own, known));
}

void add_addresses_of(const std::vector<ThreadStack>& threads, std::set<uint64_t>& addresses) {
  for (const auto& thread : threads) addresses.insert(thread.frames.begin(), thread.frames.end());
}

}  // namespace lockstep
