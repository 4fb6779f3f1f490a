// What a forked lane asks its server for, and what it is told. A case goes through the server as
// text, and an answer holds what is out of the ordinary alone: small simulated worlds would
// otherwise spend a tenth of their time on it.
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
  bool choices = false;
};

// A request to play a case, and what became of its processes.
struct PlayRequest {
  std::string scenario, subject;
  std::string tier;  // "cold", "warm" or "sim"
  int size = 1;      // of the case's world
  std::chrono::milliseconds limit{};
  bool call_sites = false;  // of simulated worlds; of others always
  bool choices = false;     // who ran next is to be told
  std::string case_value;   // JSON
};
struct PlayReply {
  GroupReport group;  // of the ranks; simulated ones end as the thread of a process can
  std::vector<std::vector<std::string>> left;  // by rank: what it left behind in its process; or {}
  int left_running = 0;  // processes that were still there when every rank had gone
  std::map<int, std::vector<ThreadStack>> stacks;  // by rank, of those that were late
  std::vector<sim::Choice> choices;                // where they are to be told
};
std::string text_of(const PlayRequest& request);
PlayRequest play_request_in(const std::string& text);
Case case_of(const PlayRequest& request);
std::string text_of(const PlayReply& reply);
PlayReply play_reply_in(const std::string& text);

// What the host of simulated worlds tells of a case.
struct HostReport {
  std::vector<std::vector<std::string>> left;  // by rank: what it left behind; or {}
  std::vector<sim::Choice> choices;            // where they are to be told
  bool is_usable = true;                       // the host goes on living
};
std::string text_of(const HostReport& report);
HostReport host_report_in(const std::string& text);

}  // namespace lockstep
