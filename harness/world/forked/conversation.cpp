#include "harness/world/forked/conversation.h"

#include "harness/core/tier.h"
#include "harness/world/wire.h"

#include <sstream>

namespace lockstep {

namespace {

// [[taken, of], ...]
Json json_of(const std::vector<sim::Choice>& choices) {
  Json json = Json::array();
  for (const auto& choice : choices) json.push_back({choice.taken, choice.of});
  return json;
}

std::vector<sim::Choice> choices_in(const Json& answer) {
  std::vector<sim::Choice> choices;
  for (const auto& choice : answer.value("choices", Json::array()))
    choices.push_back({choice.at(0).get<int>(), choice.at(1).get<int>()});
  return choices;
}

// [[how many in a row, kind, code], ...]
Json json_of(const std::vector<ChildEnd>& ends) {
  Json json = Json::array();
  for (size_t i = 0; i < ends.size();) {
    size_t behind = i;
    while (behind < ends.size() && ends[behind] == ends[i]) ++behind;
    json.push_back({behind - i, static_cast<int>(ends[i].kind), ends[i].code});
    i = behind;
  }
  return json;
}

std::vector<ChildEnd> ends_in(const Json& json) {
  std::vector<ChildEnd> ends;
  for (const auto& run : json)
    ends.insert(ends.end(), run.at(0).get<size_t>(),
                {static_cast<ChildEnd::Kind>(run.at(1).get<int>()), run.at(2).get<int>()});
  return ends;
}

Json json_of(const std::map<int, std::vector<ThreadStack>>& stacks) {
  Json json = Json::array();
  for (const auto& [rank, threads] : stacks)
    for (const auto& thread : threads)
      json.push_back({{"rank", rank},
                      {"thread", thread.thread},
                      {"name", thread.name},
                      {"frames", thread.frames},
                      {"instead", thread.instead}});
  return json;
}

std::map<int, std::vector<ThreadStack>> stacks_in(const Json& answer) {
  std::map<int, std::vector<ThreadStack>> stacks;
  for (const auto& stack : answer.value("stacks", Json::array()))
    stacks[stack.at("rank").get<int>()].push_back(
        {.thread = stack.at("thread").get<int>(),
         .name = stack.at("name").get<std::string>(),
         .frames = stack.at("frames").get<std::vector<uint64_t>>(),
         .instead = stack.at("instead").get<std::string>()});
  return stacks;
}

// What every rank left behind, where any did.
void add_left(Json& json, const std::vector<std::vector<std::string>>& left) {
  for (const auto& of_rank : left)
    if (!of_rank.empty()) {
      json["left"] = left;
      return;
    }
}

std::vector<std::vector<std::string>> left_in(const Json& answer) {
  return answer.value("left", std::vector<std::vector<std::string>>());
}

Json json_of(const DeviceAssignment& device) {
  return {{"index", device.index},
          {"is_shared", device.is_shared},
          {"is_on_one_host", device.is_on_one_host},
          {"world", device.world}};
}

// The rank itself finds out which devices there are.
constexpr int kDevicesMost = 1024;
constexpr size_t kNameMost = 200;
constexpr int kPortMost = 65535;

DeviceAssignment seat_in(WireObject json) {
  const DeviceAssignment device{
      .index = static_cast<int>(json.number("index", 0, kDevicesMost - 1)),
      .is_shared = json.flag("is_shared"),
      .is_on_one_host = json.flag("is_on_one_host"),
      .world = json.line("world", kNameMost)};
  json.nothing_else();
  return device;
}

Json json_of(const Remote& remote) {
  Json json{{"rank", remote.rank},
            {"store_address", remote.store_address},
            {"store_port", remote.store_port},
            {"listens_on", remote.listens_on}};
  if (remote.device) json["device"] = json_of(*remote.device);
  return json;
}

const std::string kRequest = "a request for a rank";

Remote remote_in(const std::string& text, int size) {
  const Json json = wire_json(text, kRequest);
  WireObject object(json, kRequest);
  Remote remote{.rank = static_cast<int>(object.number("rank", 0, size - 1)),
                .store_address = object.address("store_address"),
                .store_port = static_cast<int>(object.number("store_port", 1, kPortMost)),
                .listens_on = object.address("listens_on")};
  if (object.has("device")) remote.device = seat_in(object.object("device"));
  object.nothing_else();
  return remote;
}

// Text of other programs' processes need not be UTF-8.
std::string lenient(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

// One day, as for --timeout.
constexpr std::chrono::milliseconds kLimitMost = std::chrono::hours(24);

// A line for each of the small fields; after the last one the case.
std::string text_of(const CaseRequest& request) {
  return request.scenario + "\n" + request.subject + "\n" + request.tier + "\n" + request.backend +
         "\n" + (request.remote ? json_of(*request.remote).dump() : "") + "\n" +
         std::to_string(request.size) + " " + std::to_string(request.limit.count()) + " " +
         std::to_string(request.call_sites) + " " + std::to_string(request.choices) + "\n" +
         request.case_value;
}

CaseRequest case_request_in(const std::string& text) {
  std::istringstream in(text);
  CaseRequest request;
  int64_t limit_ms = 0;
  std::getline(in, request.scenario);
  std::getline(in, request.subject);
  std::getline(in, request.tier);
  std::getline(in, request.backend);
  std::string remote;
  std::getline(in, remote);
  in >> request.size >> limit_ms >> request.call_sites >> request.choices;
  const bool is_whole = in && in.get() == '\n';
  if (!is_whole || request.size < 1 || request.size > kWorldMost || limit_ms < 1 ||
      limit_ms > kLimitMost.count())
    throw TierError("a lane was asked for what is no request: " +
                    Json(text.substr(0, 200)).dump(-1, ' ', true, Json::error_handler_t::replace));
  if (!remote.empty()) request.remote = remote_in(remote, request.size);
  request.limit = std::chrono::milliseconds(limit_ms);
  request.case_value = text.substr(static_cast<size_t>(in.tellg()));
  return request;
}

Case case_of(const CaseRequest& request) {
  return {request.scenario, Json::parse(request.case_value)};
}

std::string text_of(const CaseReply& reply) {
  Json json{{"ends", json_of(reply.group.ends)}};
  if (reply.group.stopped) json["stopped"] = true;
  if (reply.left_running > 0) json["left_running"] = reply.left_running;
  if (!reply.stacks.empty()) json["stacks"] = json_of(reply.stacks);
  if (!reply.choices.empty()) json["choices"] = json_of(reply.choices);
  add_left(json, reply.left);
  if (!reply.journal) return json.dump();
  json["overflowed"] = reply.journal->overflowed;
  return json.dump() + "\n" + reply.journal->bytes;
}

// The journal follows the first line.
CaseReply case_reply_in(const std::string& text) {
  const auto line_end = text.find('\n');
  const Json json = Json::parse(text.substr(0, line_end));
  std::optional<JournalCopy> journal;
  if (line_end != std::string::npos)
    journal = JournalCopy{text.substr(line_end + 1), json.at("overflowed").get<bool>()};
  return {.group = {.ends = ends_in(json.at("ends")), .stopped = json.value("stopped", false)},
          .left = left_in(json),
          .left_running = json.value("left_running", 0),
          .stacks = stacks_in(json),
          .choices = choices_in(json),
          .journal = std::move(journal)};
}

std::string text_of(const LookRequest& request) {
  return kLookRequest + Json(request.addresses).dump();
}

bool is_look_request(const std::string& text) {
  return text.starts_with(kLookRequest);
}

std::string text_of(const LookReply& reply) {
  Json frames = Json::array();
  for (const auto& [address, lines] : reply.frames) {
    Json told = Json::array();
    for (const auto& line : lines) told.push_back({line.text, line.is_librarys});
    frames.push_back({address, told});
  }
  return lenient({{"out", reply.out}, {"err", reply.err}, {"frames", frames}});
}

std::string text_of(const HostReport& report) {
  Json json = Json::object();
  if (!report.is_usable) json["usable"] = false;
  if (!report.choices.empty()) json["choices"] = json_of(report.choices);
  add_left(json, report.left);
  return json.dump();
}

HostReport host_report_in(const std::string& text) {
  const Json json = Json::parse(text);
  return {
      .left = left_in(json), .choices = choices_in(json), .is_usable = json.value("usable", true)};
}

}  // namespace lockstep
