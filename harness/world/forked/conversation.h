// The requests of a forked lane to its server, and the replies. A case goes through the server as
// text, and a reply holds only what is out of the ordinary: small simulated worlds would otherwise
// spend a tenth of their time on it.
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

// What a process that lives on between cases receives for each case.
struct Order {
  const Scenario& scenario;
  Case c;
  const Subject& subject;
  std::chrono::milliseconds limit{};
  bool call_sites = false;
  bool choices = false;
};

// For a world whose ranks are spread over several servers: the rank that runs here, and the
// rendezvous of the ranks.
struct Remote {
  int rank = 0;
  std::string store_address;
  int store_port = 0;
  std::string listens_on;                       // an address of the host that runs it
  std::optional<DeviceAssignment> device = {};  // where tensors are on a device
};

// A request to run a case, and what became of its processes.
struct CaseRequest {
  std::string scenario, subject;
  std::string tier;     // "cold", "warm", "sim" or "launched"
  std::string backend;  // as in a Setting
  int size = 1;         // of the case's world
  std::chrono::milliseconds limit{};
  bool call_sites = false;            // of simulated worlds; of others always
  bool choices = false;               // reply with the choices of who ran next
  std::string case_value;             // JSON
  std::optional<Remote> remote = {};  // of launched worlds
};

// The journal of a rank that ran on another server.
struct JournalCopy {
  std::string bytes;
  bool overflowed = false;
};

struct CaseReply {
  GroupReport group;  // of the ranks; simulated ones end as the thread of a process can
  std::vector<std::vector<std::string>> left;  // by rank: what it left behind in its process; or {}
  int left_running = 0;                        // processes that still ran when every rank had ended
  std::map<int, std::vector<ThreadStack>> stacks;  // by rank, of those late or crashed
  std::vector<sim::Choice> choices;                // where they were requested
  std::optional<JournalCopy> journal = {};         // where the runner does not see it
};
std::string text_of(const CaseRequest& request);
CaseRequest case_request_in(const std::string& text);

// A request that came over a network, for one rank of a launched world, with every field in its
// range. Throws TierError, which names the field, for anything else.
CaseRequest remote_request_in(const std::string& text);
Case case_of(const CaseRequest& request);
std::string text_of(const CaseReply& reply);
CaseReply case_reply_in(const std::string& text);

// A reply that came over a network: for one rank, with its journal, every field in its range.
// Throws TierError, which names the field.
CaseReply remote_reply_in(const std::string& text);

// A request for what a runner on another host cannot see, and the reply: the output of the rank
// that ran here, and the functions at addresses of the server's processes.
struct LookRequest {
  std::set<uint64_t> addresses;
};
struct LookReply {
  std::string out, err;
  KnownFrames frames;
};
std::string text_of(const LookRequest& request);
inline const std::string kLookRequest = "look at ";  // begins one
bool is_look_request(const std::string& text);
LookRequest look_request_in(const std::string& text);
std::string text_of(const LookReply& reply);
LookReply look_reply_in(const std::string& text);  // both throw TierError

// The reply of the host of simulated worlds for a case.
struct HostReport {
  std::vector<std::vector<std::string>> left;  // by rank: what it left behind; or {}
  std::vector<sim::Choice> choices;            // where they were requested
  bool is_usable = true;                       // the host can run another case
};
std::string text_of(const HostReport& report);
HostReport host_report_in(const std::string& text);

}  // namespace lockstep
