// What a forked lane asks its server for, and what it is told. A case goes through the server as
// text, and an answer holds what is out of the ordinary alone: small simulated worlds would
// otherwise spend a tenth of their time on it.
#pragma once

#include "harness/core/scenario.h"
#include "harness/process/child_group.h"
#include "harness/process/stacks.h"
#include "harness/world/devices.h"
#include "harness/world/sim/chooser.h"

#include <chrono>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
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

// Of a world whose ranks are spread over several servers: the rank that is played here, and where
// it meets the others.
struct Abroad {
  int rank = 0;
  std::string store_address;
  int store_port = 0;
  std::string listens_on;  // an address of the host that plays it
  std::string scratch;     // a folder's name, in the system's place for such; the same on all ranks
  std::optional<DeviceSeat> seat = {};  // where tensors are on a device
};

// A request to play a case, and what became of its processes.
struct PlayRequest {
  std::string scenario, subject;
  std::string tier;     // "cold", "warm", "sim" or "launched"
  std::string backend;  // as in a Setting
  int size = 1;         // of the case's world
  std::chrono::milliseconds limit{};
  bool call_sites = false;            // of simulated worlds; of others always
  bool choices = false;               // who ran next is to be told
  std::string case_value;             // JSON
  std::optional<Abroad> abroad = {};  // of launched worlds
};

// What a rank that was played abroad had in its journal.
struct JournalCopy {
  std::string bytes;
  bool overflowed = false;
};

struct PlayReply {
  GroupReport group;  // of the ranks; simulated ones end as the thread of a process can
  std::vector<std::vector<std::string>> left;  // by rank: what it left behind in its process; or {}
  int left_running = 0;  // processes that were still there when every rank had gone
  std::map<int, std::vector<ThreadStack>> stacks;  // by rank, of those that were late
  std::vector<sim::Choice> choices;                // where they are to be told
  std::optional<JournalCopy> journal = {};         // where the runner does not see it
};
std::string text_of(const PlayRequest& request);
PlayRequest play_request_in(const std::string& text);
Case case_of(const PlayRequest& request);
std::string text_of(const PlayReply& reply);
PlayReply play_reply_in(const std::string& text);

// A request for what a runner elsewhere cannot see, and the answer: what the rank that was played
// here wrote to its output, and what is at addresses of the server's processes.
struct LookRequest {
  std::set<uint64_t> addresses;
};
struct LookReply {
  std::string out, err;
  KnownFrames frames;
};
std::string text_of(const LookRequest& request);
bool is_look_request(const std::string& text);
LookRequest look_request_in(const std::string& text);
std::string text_of(const LookReply& reply);
LookReply look_reply_in(const std::string& text);

// What the host of simulated worlds tells of a case.
struct HostReport {
  std::vector<std::vector<std::string>> left;  // by rank: what it left behind; or {}
  std::vector<sim::Choice> choices;            // where they are to be told
  bool is_usable = true;                       // the host goes on living
};
std::string text_of(const HostReport& report);
HostReport host_report_in(const std::string& text);

}  // namespace lockstep
