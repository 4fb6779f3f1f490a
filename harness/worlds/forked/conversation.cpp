#include "harness/worlds/forked/conversation.h"

#include "harness/cases/tier.h"
#include "harness/worlds/wire.h"

#include <algorithm>

namespace lockstep {

namespace {

const std::string kRequest = "a request to a lane's server";

// A thousand ranks of a simulated world end alike.
struct EndOfSome {
  int ranks = 1;
  ChildEnd end;
  static constexpr auto fields() {
    return std::tuple{field("ranks", &EndOfSome::ranks, between(1, kWorldMost)),
                      field("end", &EndOfSome::end)};
  }
};

struct StackOfRank {
  int rank = 0;
  ThreadStack stack;
  static constexpr auto fields() {
    return std::tuple{field("rank", &StackOfRank::rank, between(0, kWorldMost - 1)),
                      field("stack", &StackOfRank::stack)};
  }
};

// A CaseReply as it is sent.
struct SentReply {
  std::vector<EndOfSome> ends;
  bool stopped = false;
  int left_running = 0;
  std::vector<std::vector<std::string>> left;
  std::vector<StackOfRank> stacks;
  std::vector<sim::Choice> choices;
  static constexpr auto fields() {
    return std::tuple{field("ends", &SentReply::ends),
                      field("stopped", &SentReply::stopped),
                      field("left_running", &SentReply::left_running, at_least(0)),
                      field("left", &SentReply::left),
                      field("stacks", &SentReply::stacks),
                      field("choices", &SentReply::choices)};
  }
};

}  // namespace

std::string text_of(const LaneRequest& request) {
  return with_bytes(to_wire(request), request.run ? request.run->case_value : "");
}

LaneRequest lane_request_in(const std::string& text) {
  const auto [line, bytes] = line_and_bytes(text, kRequest);
  auto request = from_wire<LaneRequest>(line, kRequest);
  if (request.run.has_value() == request.keep.has_value())
    throw TierError(kRequest + " is not one of those there are");
  if (request.run) request.run->case_value = bytes;
  return request;
}

std::string text_of(const CaseReply& reply) {
  SentReply sent{.ends = {},
                 .stopped = reply.group.stopped,
                 .left_running = reply.left_running,
                 .left = if_any(reply.left),
                 .stacks = {},
                 .choices = reply.choices};
  for (const auto& end : reply.group.ends) {
    if (!sent.ends.empty() && sent.ends.back().end == end)
      ++sent.ends.back().ranks;
    else
      sent.ends.push_back({1, end});
  }
  for (const auto& [rank, threads] : reply.stacks)
    for (const auto& thread : threads) sent.stacks.push_back({rank, thread});
  return to_wire(sent);
}

CaseReply case_reply_in(const std::string& text) {
  auto sent = from_wire<SentReply>(text, "a reply of a lane's server");
  CaseReply reply{.group = {.ends = {}, .stopped = sent.stopped},
                  .left = std::move(sent.left),
                  .left_running = sent.left_running,
                  .stacks = {},
                  .choices = std::move(sent.choices)};
  for (const auto& some : sent.ends)
    reply.group.ends.insert(reply.group.ends.end(), static_cast<size_t>(some.ranks), some.end);
  for (auto& [rank, stack] : sent.stacks) reply.stacks[rank].push_back(std::move(stack));
  return reply;
}

std::vector<std::vector<std::string>> if_any(std::vector<std::vector<std::string>> left) {
  const bool is_any =
      std::any_of(left.begin(), left.end(), [](const auto& of_rank) { return !of_rank.empty(); });
  if (!is_any) left.clear();
  return left;
}

}  // namespace lockstep
