// The requests of a forked lane to its server, and the replies. A case goes through the server as
// text, behind the fields of its request, and only the process that runs it reads it.
#pragma once

#include "harness/cases/scenario.h"
#include "harness/process/child_group.h"
#include "harness/process/stacks.h"
#include "harness/worlds/sim/chooser.h"

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

struct Subject;

// One day, as for --timeout.
inline constexpr int64_t kTimeLimitMost_ms =
    std::chrono::milliseconds(std::chrono::hours(24)).count();

// A request to run a case.
struct CaseRequest {
  std::string scenario, subject;
  std::string tier, backend;               // as in a Setting
  int size = 1;                            // of the case's world
  std::chrono::milliseconds time_limit{};  // from the moment its world starts
  bool call_sites = false;                 // of simulated worlds; of others always
  bool choices = false;                    // the reply includes the scheduler's choices
  std::string case_value;                  // JSON, behind the fields
  static constexpr auto fields() {
    return std::tuple{field("scenario", &CaseRequest::scenario, line_up_to(4096)),
                      field("subject", &CaseRequest::subject, line_up_to(4096)),
                      field("tier", &CaseRequest::tier, line_up_to(200)),
                      field("backend", &CaseRequest::backend, line_up_to(200)),
                      field("size", &CaseRequest::size, between(1, kWorldMost)),
                      field("time_limit", &CaseRequest::time_limit, between(1, kTimeLimitMost_ms)),
                      field("call_sites", &CaseRequest::call_sites),
                      field("choices", &CaseRequest::choices)};
  }
};

// A request to write the output of the last case into `folder`.
struct KeepRequest {
  std::string folder;
  static constexpr auto fields() { return std::tuple{field("folder", &KeepRequest::folder)}; }
};

// Exactly one member is set.
struct LaneRequest {
  std::optional<CaseRequest> run = {};
  std::optional<KeepRequest> keep = {};
  static constexpr auto fields() {
    return std::tuple{field("run", &LaneRequest::run), field("keep", &LaneRequest::keep)};
  }
};
std::string text_of(const LaneRequest& request);
LaneRequest lane_request_in(const std::string& text);  // throws TierError, as all below

// The stacks of ranks that were late or have crashed.
using StacksByRank = std::map<int, std::vector<ThreadStack>>;

// The ends of the processes of a case.
struct CaseReply {
  GroupReport group;  // of the ranks; simulated ones end as the thread of a process can
  std::vector<std::vector<std::string>> left;  // by rank: what it left behind in its process; or {}
  int left_running = 0;                        // processes that still ran when every rank had ended
  StacksByRank stacks;
  std::vector<sim::Choice> choices;  // where they were requested
};
std::string text_of(const CaseReply& reply);
CaseReply case_reply_in(const std::string& text);

// A request as the processes that run its ranks have it. Scenario and subject outlive it.
struct CaseAssignment {
  CaseAssignment(CaseRequest asked, Case of, const Scenario& by, const Subject& under)
      : request(std::move(asked)),
        c(std::move(of)),
        world(world_of(c)),
        hash(hash_of(c)),
        scenario(by),
        subject(under) {}
  const CaseRequest request;
  const Case c;
  const WorldSpec world;  // of the case
  const std::string hash;
  const Scenario& scenario;
  const Subject& subject;
};

// The report of a rank of a warm world on a case: what it left behind in its process.
struct RankReport {
  std::vector<std::string> left;
  static constexpr auto fields() { return std::tuple{field("left", &RankReport::left)}; }
};

// The report of the host of simulated worlds on a case.
struct HostReport {
  std::vector<std::vector<std::string>> left = {};  // by rank: what it left behind; or {}
  std::vector<sim::Choice> choices = {};            // where they were requested
  bool is_usable = true;                            // the host can run another case
  std::string problem = {};                         // why no rank could run; or ""
  static constexpr auto fields() {
    return std::tuple{field("left", &HostReport::left), field("choices", &HostReport::choices),
                      field("is_usable", &HostReport::is_usable),
                      field("problem", &HostReport::problem)};
  }
};

// `left`, or {} where no rank left anything.
std::vector<std::vector<std::string>> if_any(std::vector<std::vector<std::string>> left);

}  // namespace lockstep
