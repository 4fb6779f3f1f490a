#include "harness/world/forked/conversation.h"

#include "harness/core/tier.h"

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

}  // namespace

// A line for each of the small fields; behind the last the case.
std::string text_of(const PlayRequest& request) {
  return request.scenario + "\n" + request.subject + "\n" + request.tier + "\n" +
         std::to_string(request.size) + " " + std::to_string(request.limit.count()) + " " +
         std::to_string(request.call_sites) + " " + std::to_string(request.choices) + "\n" +
         request.case_value;
}

PlayRequest play_request_in(const std::string& text) {
  std::istringstream in(text);
  PlayRequest request;
  int64_t limit_ms = 0;
  std::getline(in, request.scenario);
  std::getline(in, request.subject);
  std::getline(in, request.tier);
  in >> request.size >> limit_ms >> request.call_sites >> request.choices;
  if (!in || in.get() != '\n') throw TierError("a lane was asked for what is no request: " + text);
  request.limit = std::chrono::milliseconds(limit_ms);
  request.case_value = text.substr(static_cast<size_t>(in.tellg()));
  return request;
}

Case case_of(const PlayRequest& request) {
  return {request.scenario, Json::parse(request.case_value)};
}

std::string text_of(const PlayReply& reply) {
  Json json{{"ends", json_of(reply.group.ends)}};
  if (reply.group.stopped) json["stopped"] = true;
  if (reply.left_running > 0) json["left_running"] = reply.left_running;
  if (!reply.stacks.empty()) json["stacks"] = json_of(reply.stacks);
  if (!reply.choices.empty()) json["choices"] = json_of(reply.choices);
  add_left(json, reply.left);
  return json.dump();
}

PlayReply play_reply_in(const std::string& text) {
  const Json json = Json::parse(text);
  return {.group = {.ends = ends_in(json.at("ends")), .stopped = json.value("stopped", false)},
          .left = left_in(json),
          .left_running = json.value("left_running", 0),
          .stacks = stacks_in(json),
          .choices = choices_in(json)};
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
