// The requests of rank 0's lane to the other processes about a case that has run.
#include "harness/process/message.h"
#include "harness/worlds/forked/capture.h"
#include "harness/worlds/launched/launched_tier.h"

#include <poll.h>

namespace lockstep {

std::string LaunchedTier::answer_of(int rank, const std::string& request) {
  const int socket = sockets_.at(static_cast<size_t>(rank));
  const auto until = Clock::now() + kAnswerSlack;
  if (!send(rank, ServerWord::request, request)) lose(rank, "is gone");
  while (lost_.empty()) {
    pollfd readable{socket, POLLIN, 0};
    poll(&readable, 1, milliseconds_until(until));
    if (Clock::now() >= until) lose(rank, "does not answer");
    if (readable.revents == 0) continue;
    const auto received = receive_message(socket, kReplyBytesMost);
    if (!received) lose(rank, "is gone");
    if (!received) break;
    if (received->kind == static_cast<uint32_t>(ServerWord::reply)) return received->text;
    if (received->kind == static_cast<uint32_t>(ServerWord::failure))
      throw TierError(received->text);
    if (received->kind == static_cast<uint32_t>(RemoteWord::interrupted) && parts_.on_interrupt)
      parts_.on_interrupt();
  }
  throw TierLost(lost_);
}

// Keeps the output that is available: if a process is gone by now, the next case reports it.
CaseStacks LaunchedTier::keep_output(const std::filesystem::path& folder, const History& history) {
  std::filesystem::create_directories(folder);
  const DivergencePoints divergence_points(history, call_sites_);
  std::vector<KnownFrames> known(call_sites_.size());
  CaseStacks seen;
  try {
    for (int rank = 0; rank < static_cast<int>(call_sites_.size()); ++rank) {
      std::set<uint64_t> addresses;
      divergence_points.add_addresses_of(rank, addresses);
      const auto stacks = stacks_.find(rank);
      if (stacks != stacks_.end()) add_addresses_of(stacks->second, addresses);
      const LookRequest request{{addresses.begin(), addresses.end()}};
      const auto reply = look_reply_in(answer_of(rank, text_of(MemberRequest{.look = request})));
      known[static_cast<size_t>(rank)] = reply.frames;
      Capture::keep(folder, rank, {reply.out, reply.err});
      if (stacks != stacks_.end())
        seen.by_rank[rank] = write_stacks(folder, rank, stacks->second, reply.frames);
    }
    seen.call_sites = write_call_sites(
        folder, divergence_points,
        [&](int rank) -> const KnownFrames& { return known[static_cast<size_t>(rank)]; });
  } catch (const TierError&) {
  }
  return seen;
}

}  // namespace lockstep
