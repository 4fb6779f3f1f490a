// The parts of a conversation that come over a network, read without trust.
#include "harness/core/characters.h"
#include "harness/core/tier.h"
#include "harness/world/forked/conversation.h"
#include "harness/world/wire.h"

#include <limits>

namespace lockstep {

namespace {

const std::string kRequest = "a request for a rank";
const std::string kReply = "a reply about a rank";
constexpr size_t kNameMost = 200;
constexpr size_t kThreadsMost = 4096, kFramesMost = 1024, kTextMost = 1u << 16;

ChildEnd end_in(const Json& run) {
  if (!run.is_array() || run.size() != 3) throw TierError(kReply + " has an end of another form");
  wire_number(run[0], kReply + ": how many ended so", 1, 1);
  constexpr auto kLast = static_cast<int>(ChildEnd::Kind::cut_off);
  return {static_cast<ChildEnd::Kind>(wire_number(run[1], kReply + ": how it ended", 0, kLast)),
          static_cast<int>(wire_number(run[2], kReply + ": its code", 0, 255))};
}

std::vector<uint64_t> addresses_in(const Json& list, const std::string& what) {
  std::vector<uint64_t> addresses;
  for (const Json& each : list) {
    if (!each.is_number_unsigned()) throw TierError(what + " has what is no address");
    addresses.push_back(each.get<uint64_t>());
  }
  return addresses;
}

ThreadStack stack_in(WireObject json) {
  json.number("rank", 0, 0);
  ThreadStack stack{
      .thread = static_cast<int>(json.number("thread", 0, std::numeric_limits<int>::max())),
      .name = json.text("name", kNameMost),
      .frames = addresses_in(json.list("frames", kFramesMost), kReply),
      .instead = json.text("instead", kTextMost)};
  json.nothing_else();
  return stack;
}

}  // namespace

CaseRequest remote_request_in(const std::string& text) {
  CaseRequest request = case_request_in(text);
  if (!request.remote || request.tier != "launched")
    throw TierError(kRequest + " is for no launched world");
  for (const std::string* const name : {&request.scenario, &request.subject, &request.backend})
    if (name->size() > kNameMost || !is_one_line(*name))
      throw TierError(kRequest + " has a name that is no line of text");
  if (request.choices) throw TierError(kRequest + " asks for choices, which a simulated world has");
  const Json value = wire_json(request.case_value, "the case of a request");
  if (!value.is_object()) throw TierError("the case of a request is no object");
  try {
    if (world_size({request.scenario, value}) == request.size) return request;
  } catch (const std::runtime_error& error) {
    throw TierError(std::string("the case of a request: ") + error.what());
  } catch (const Json::exception& error) {
    throw TierError(std::string("the case of a request has no world: ") + error.what());
  }
  throw TierError("the case of a request is of another world size than the request");
}

CaseReply remote_reply_in(const std::string& text) {
  const auto line_end = text.find('\n');
  if (line_end == std::string::npos) throw TierError(kReply + " has no journal");
  const Json json = wire_json(text.substr(0, line_end), kReply);
  WireObject object(json, kReply);
  CaseReply reply;
  const Json& ends = object.list("ends", 1);
  if (ends.empty()) throw TierError(kReply + " does not say how it ended");
  reply.group.ends.push_back(end_in(ends[0]));
  if (object.has("stopped")) reply.group.stopped = object.flag("stopped");
  if (object.has("left_running"))
    reply.left_running = static_cast<int>(object.number("left_running", 0, 1 << 22));
  if (object.has("stacks"))
    for (const Json& each : object.list("stacks", kThreadsMost))
      reply.stacks[0].push_back(stack_in(WireObject(each, kReply + ", a stack")));
  reply.journal = JournalCopy{text.substr(line_end + 1), object.flag("overflowed")};
  object.nothing_else();
  return reply;
}

LookRequest look_request_in(const std::string& text) {
  const std::string what = "a request to look at addresses";
  constexpr size_t kAddressesMost = 1u << 16;
  const Json json = wire_json(text.substr(kLookRequest.size()), what);
  if (!json.is_array() || json.size() > kAddressesMost)
    throw TierError(what + " has no list of them");
  const auto addresses = addresses_in(json, what);
  return {{addresses.begin(), addresses.end()}};
}

LookReply look_reply_in(const std::string& text) {
  const std::string what = "a reply about addresses";
  constexpr size_t kOutputMost = size_t{1} << 30, kAddressesMost = 1u << 16, kLinesMost = 1024;
  const Json json = wire_json(text, what);
  WireObject object(json, what);
  LookReply reply{
      .out = object.text("out", kOutputMost), .err = object.text("err", kOutputMost), .frames = {}};
  for (const auto& frame : object.list("frames", kAddressesMost)) {
    const bool is_pair = frame.is_array() && frame.size() == 2 && frame[0].is_number_unsigned() &&
                         frame[1].is_array() && frame[1].size() <= kLinesMost;
    if (!is_pair) throw TierError(what + " has a frame of another form");
    auto& lines = reply.frames[frame[0].get<uint64_t>()];
    for (const auto& line : frame[1]) {
      if (!line.is_array() || line.size() != 2 || !line[0].is_string() || !line[1].is_boolean())
        throw TierError(what + " has a line of another form");
      lines.push_back({line[0].get<std::string>(), line[1].get<bool>()});
    }
  }
  object.nothing_else();
  return reply;
}

}  // namespace lockstep
