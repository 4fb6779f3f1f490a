#include "harness/worlds/launched/agent.h"

#include "harness/cases/tier.h"
#include "harness/process/message.h"

#include <array>
#include <optional>
#include <poll.h>

namespace lockstep {

namespace {

using Clock = std::chrono::steady_clock;

constexpr uint32_t kRequestBytesMost = 1u << 26;  // cases are kilobytes
constexpr int kInterruptPoll_ms = 50;
constexpr std::chrono::seconds kInterruptPatience{10};

uint32_t word_of(RemoteWord word) {
  return static_cast<uint32_t>(word);
}

uint32_t word_of(ServerWord word) {
  return static_cast<uint32_t>(word);
}

// Why rank 0 cannot have sent it, or "". The server checks requests.
std::string problem_of(const Message& received) {
  if (received.kind == word_of(RemoteWord::end)) {
    try {
      campaign_end_in(received.text);
      return "";
    } catch (const TierError& error) {
      return error.what();
    }
  }
  if (received.kind == word_of(ServerWord::request)) return "";
  const bool is_order =
      received.kind == word_of(ServerWord::stop) || received.kind == word_of(ServerWord::go_on);
  if (is_order && received.text.empty()) return "";
  return "a message of kind " + std::to_string(received.kind) + " and " +
         std::to_string(received.text.size()) + " bytes";
}

}  // namespace

CampaignEnd serve_rank_zero(const Descriptor& rank_zero, const Zygote& server,
                            const std::atomic<bool>& interrupted) {
  std::optional<Clock::time_point> leave_at;
  for (;;) {
    if (interrupted && !leave_at) {
      leave_at = Clock::now() + kInterruptPatience;
      send_message(rank_zero.number(), {word_of(RemoteWord::interrupted), ""});
    }
    if (leave_at && Clock::now() >= *leave_at)
      return {.why = "interrupted, and rank 0's process did not end the campaign"};
    std::array<pollfd, 2> readable{pollfd{rank_zero.number(), POLLIN, 0},
                                   pollfd{server.descriptor(), POLLIN, 0}};
    if (poll(readable.data(), readable.size(), kInterruptPoll_ms) < 1) continue;
    if (readable[0].revents != 0) {
      const auto received = receive_message(rank_zero.number(), kRequestBytesMost);
      if (!received)
        return {.why =
                    "rank 0's process ended, or cannot be reached any more, before the campaign "
                    "had ended"};
      if (const auto problem = problem_of(*received); !problem.empty())
        return {.why =
                    "rank 0 sent " + problem + ": what answers there is no rank 0 of this program"};
      if (received->kind == word_of(RemoteWord::end)) return campaign_end_in(received->text);
      send_message(server.descriptor(), *received);
    }
    if (readable[1].revents != 0) {
      const auto received = receive_message(server.descriptor());
      if (!received)
        return {.why = "the server process (pid " + std::to_string(server.pid()) +
                       ") of this rank is gone"};
      send_message(rank_zero.number(), *received);
    }
  }
}

}  // namespace lockstep
