// What a forked lane asks its server for, and what it is told: as JSON.
#pragma once

#include "harness/core/scenario.h"
#include "harness/process/child_group.h"
#include "harness/process/stacks.h"
#include "harness/world/sim/chooser.h"

#include <chrono>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace lockstep {

struct Subject;

// What a process that goes on living is told of each case.
struct Order {
  const Scenario& scenario;
  Case c;
  const Subject& subject;
  std::chrono::milliseconds limit{};
  bool call_sites = false;
};

// A request to play a case, and what became of its processes.
struct PlayRequest {
  Case c;
  std::string subject;
  std::string tier;  // "cold", "warm" or "sim"
  std::chrono::milliseconds limit{};
  bool call_sites = false;  // of simulated worlds; of others always
  std::string text;         // as it arrived; empty where it is made
};
struct PlayReply {
  GroupReport group;  // of the ranks; simulated ones end as the thread of a process can
  std::vector<std::vector<std::string>> left;  // by rank: what it left behind in its process
  int left_running = 0;  // processes that were still there when every rank had gone
  std::map<int, std::vector<ThreadStack>> stacks;  // by rank, of those that were late
  std::vector<sim::Choice> choices;  // of who ran next in a simulated world with a list of them
};
std::string play_request(const PlayRequest& request);
PlayRequest play_request_in(std::string text);
std::string play_reply(const PlayReply& reply);
PlayReply play_reply_in(const std::string& text);

// [[taken, of], ...]
Json json_of(const std::vector<sim::Choice>& choices);
std::vector<sim::Choice> choices_in(const Json& json);

}  // namespace lockstep
