#include "harness/worlds/forked/lane.h"

#include "harness/rank/journal.h"
#include "harness/worlds/forked/rank.h"
#include "harness/worlds/forked/server.h"
#include "harness/worlds/gloo/shared_memory_store.h"

#include <set>

namespace lockstep {

namespace {

// The server's time beyond the deadline: the grace, killing, and a busy machine.
constexpr std::chrono::seconds kServerSlack{60};

bool exited_well(const ChildEnd& end) {
  return end == ChildEnd{ChildEnd::Kind::exited, kCaseHasRun};
}

}  // namespace

Lane::Lane(const SingleThreaded& alone, const std::vector<Scenario>& scenarios,
           const Subjects& subjects, const ForkedOptions& options, std::span<const int> close_there)
    : options_(options),
      memory_(std::make_shared<LaneMemory>(options)),
      server_(alone,
              served_by(std::make_shared<ForkedServer>(scenarios, subjects, options, memory_)),
              close_there) {}

void Lane::stop() {
  is_stopped_ = true;
  server_.stop();
}

Lane::Outcome Lane::run(const CaseRequest& request) {
  auto reply = case_reply_in(server_.request(text_of(LaneRequest{.run = request}),
                                             request.time_limit + options_.grace + kServerSlack));
  stacks_ = reply.stacks;
  if (reply.group.stopped) {
    release_memory(reply);
    throw Interrupted();
  }
  Outcome outcome{history(reply), reply.choices};
  release_memory(reply);
  return outcome;
}

History Lane::history(const CaseReply& reply) {
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

// A rank that was killed may have been in the middle of a long record.
void Lane::release_memory(const CaseReply& reply) const {
  const auto size = static_cast<int>(reply.group.ends.size());
  for (int rank = 0; rank < size; ++rank) {
    const auto journal = memory_->journal(rank, size);
    const auto used = sizeof(JournalHead) + JournalView(journal).bytes().size();
    const bool is_whole = exited_well(reply.group.ends[static_cast<size_t>(rank)]);
    memory_->region.release(is_whole ? journal.first(used) : journal);
  }
  memory_->region.release(memory_->store.first(SharedMemoryStore::used(memory_->store)));
}

CaseStacks Lane::keep_output(const std::filesystem::path& folder, const History& history) {
  const KeepRequest request{std::filesystem::absolute(folder)};
  server_.request(text_of(LaneRequest{.keep = request}), kServerSlack);
  const DivergencePoints divergence_points(history, call_sites_);
  // All at once: a thousand waiting ranks have the same few stacks.
  std::set<uint64_t> addresses;
  for (int rank = 0; rank < history.size(); ++rank)
    divergence_points.add_addresses_of(rank, addresses);
  for (const auto& [rank, threads] : stacks_) add_addresses_of(threads, addresses);
  const auto known = frames_at(addresses, [&] { return is_stopped_.load(); });
  CaseStacks seen{.call_sites = write_call_sites(folder, divergence_points,
                                                 [&](int) -> const KnownFrames& { return known; })};
  for (const auto& [rank, threads] : stacks_)
    seen.by_rank[rank] = write_stacks(folder, rank, threads, known);
  return seen;
}

}  // namespace lockstep
