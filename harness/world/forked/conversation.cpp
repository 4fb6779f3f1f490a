#include "harness/world/forked/conversation.h"

namespace lockstep {

std::string play_request(const PlayRequest& request) {
  return Json{{"scenario", request.c.scenario},       {"case", request.c.value},
              {"subject", request.subject},           {"tier", request.tier},
              {"deadline_ms", request.limit.count()}, {"call_sites", request.call_sites}}
      .dump();
}

PlayReply play_reply_in(const std::string& text) {
  const Json json = Json::parse(text);
  PlayReply reply;
  reply.group.stopped = json.at("stopped").get<bool>();
  reply.left = json.at("left").get<std::vector<std::vector<std::string>>>();
  reply.left_running = json.at("left_running").get<int>();
  for (const auto& end : json.at("ends"))
    reply.group.ends.push_back(
        {static_cast<ChildEnd::Kind>(end.at(0).get<int>()), end.at(1).get<int>()});
  for (const auto& stack : json.at("stacks"))
    reply.stacks[stack.at("rank").get<int>()].push_back(
        {.thread = stack.at("thread").get<int>(),
         .name = stack.at("name").get<std::string>(),
         .frames = stack.at("frames").get<std::vector<uint64_t>>(),
         .instead = stack.at("instead").get<std::string>()});
  reply.choices = choices_in(json.at("choices"));
  return reply;
}

PlayRequest play_request_in(std::string text) {
  Json json = Json::parse(text);
  return {.c = {json.at("scenario").get<std::string>(), std::move(json.at("case"))},
          .subject = json.at("subject").get<std::string>(),
          .tier = json.at("tier").get<std::string>(),
          .limit = std::chrono::milliseconds(json.at("deadline_ms").get<int64_t>()),
          .call_sites = json.at("call_sites").get<bool>(),
          .text = std::move(text)};
}

std::string play_reply(const PlayReply& reply) {
  Json ends = Json::array();
  for (const auto& end : reply.group.ends) ends.push_back({static_cast<int>(end.kind), end.code});
  Json stacks = Json::array();
  for (const auto& [rank, threads] : reply.stacks)
    for (const auto& thread : threads)
      stacks.push_back({{"rank", rank},
                        {"thread", thread.thread},
                        {"name", thread.name},
                        {"frames", thread.frames},
                        {"instead", thread.instead}});
  return Json{{"ends", ends},
              {"stacks", stacks},
              {"choices", json_of(reply.choices)},
              {"stopped", reply.group.stopped},
              {"left", reply.left},
              {"left_running", reply.left_running}}
      .dump();
}

Json json_of(const std::vector<sim::Choice>& choices) {
  Json json = Json::array();
  for (const auto& choice : choices) json.push_back({choice.taken, choice.of});
  return json;
}

std::vector<sim::Choice> choices_in(const Json& json) {
  std::vector<sim::Choice> choices;
  for (const auto& choice : json)
    choices.push_back({choice.at(0).get<int>(), choice.at(1).get<int>()});
  return choices;
}

}  // namespace lockstep
