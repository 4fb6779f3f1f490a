#include "harness/world/launched/agent.h"

#include "harness/process/message.h"

#include <array>
#include <optional>
#include <poll.h>

namespace lockstep {

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kInterruptPoll_ms = 50;
constexpr std::chrono::seconds kInterruptPatience{10};

}  // namespace

CampaignEnd serve_rank_zero(const Descriptor& rank_zero, const Zygote& server,
                            const std::atomic<bool>& interrupted) {
  const auto word_of = [](MemberWord word) { return static_cast<uint32_t>(word); };
  std::optional<Clock::time_point> leave_at;
  for (;;) {
    if (interrupted && !leave_at) {
      leave_at = Clock::now() + kInterruptPatience;
      send_message(rank_zero.number(), {word_of(MemberWord::interrupted), ""});
    }
    if (leave_at && Clock::now() >= *leave_at)
      return {.why = "interrupted, and rank 0's process did not end the campaign"};
    std::array<pollfd, 2> readable{pollfd{rank_zero.number(), POLLIN, 0},
                                   pollfd{server.descriptor(), POLLIN, 0}};
    if (poll(readable.data(), readable.size(), kInterruptPoll_ms) < 1) continue;
    if (readable[0].revents != 0) {
      const auto heard = receive_message(rank_zero.number());
      if (!heard)
        return {.why =
                    "rank 0's process ended, or cannot be reached any more, before the campaign "
                    "had ended"};
      if (heard->kind == word_of(MemberWord::end)) return campaign_end_in(heard->text);
      send_message(server.descriptor(), *heard);
    }
    if (readable[1].revents != 0) {
      const auto heard = receive_message(server.descriptor());
      if (!heard)
        return {.why = "the server process (pid " + std::to_string(server.pid()) +
                       ") of this rank is gone"};
      send_message(rank_zero.number(), *heard);
    }
  }
}

}  // namespace lockstep
