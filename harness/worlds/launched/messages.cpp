#include "harness/worlds/launched/messages.h"

#include "harness/cases/tier.h"

namespace lockstep {

namespace {

const std::string kMemberRequest = "a request to a launched process";
const std::string kRankReply = "a reply about a rank";

struct FramesAt {
  uint64_t address = 0;
  Stack frames;
  static constexpr auto fields() {
    return std::tuple{field("address", &FramesAt::address),
                      field("frames", &FramesAt::frames, at_most(1024, {}))};
  }
};

// A LookReply as it is sent.
struct SentLook {
  std::string out, err;
  std::vector<FramesAt> frames;
  static constexpr auto fields() {
    return std::tuple{field("out", &SentLook::out, text_up_to(1u << 30)),
                      field("err", &SentLook::err, text_up_to(1u << 30)),
                      field("frames", &SentLook::frames, at_most(1u << 16, {}))};
  }
};

}  // namespace

std::string text_of(const MemberRequest& request) {
  return with_bytes(to_wire(request), request.run ? request.run->of.case_value : "");
}

MemberRequest member_request_in(const std::string& text) {
  const auto [line, bytes] = line_and_bytes(text, kMemberRequest);
  auto request = from_wire<MemberRequest>(line, kMemberRequest);
  if (request.run.has_value() == request.look.has_value())
    throw TierError(kMemberRequest + " is not one of those there are");
  if (!request.run) return request;
  if (request.run->rank >= request.run->of.size)
    throw TierError(kMemberRequest + " is for rank " + std::to_string(request.run->rank) +
                    " of a world of " + std::to_string(request.run->of.size));
  request.run->of.case_value = bytes;
  return request;
}

Case case_in(const CaseRequest& request, const Scenario& scenario) {
  const std::string what = "the case of a request";
  try {
    auto c = scenario.parse(wire_json(request.case_value, what));
    if (world_size(c) == request.size) return c;
  } catch (const FieldError& error) {
    throw TierError(what + ": " + error.what());
  }
  throw TierError(what + " is of another world size than the request");
}

std::string text_of(const RankReply& reply) {
  return with_bytes(to_wire(reply), reply.journal);
}

RankReply rank_reply_in(const std::string& text) {
  const auto [line, bytes] = line_and_bytes(text, kRankReply);
  auto reply = from_wire<RankReply>(line, kRankReply);
  reply.journal = bytes;
  return reply;
}

std::string text_of(const LookReply& reply) {
  SentLook sent{.out = reply.out, .err = reply.err, .frames = {}};
  for (const auto& [address, frames] : reply.frames) sent.frames.push_back({address, frames});
  return to_wire(sent);
}

LookReply look_reply_in(const std::string& text) {
  auto sent = from_wire<SentLook>(text, "a reply about addresses");
  LookReply reply{.out = std::move(sent.out), .err = std::move(sent.err), .frames = {}};
  for (auto& [address, frames] : sent.frames) reply.frames[address] = std::move(frames);
  return reply;
}

}  // namespace lockstep
