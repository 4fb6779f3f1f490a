// The messages of rank 0's lane and the server of each launched process about one rank. Both
// come over a network, so that every field is read with its range.
#pragma once

#include "harness/cases/scenario.h"
#include "harness/process/child_group.h"
#include "harness/process/stacks.h"
#include "harness/worlds/devices/devices.h"
#include "harness/worlds/forked/conversation.h"
#include "harness/worlds/wire.h"

#include <optional>
#include <set>
#include <string>
#include <vector>

namespace lockstep {

// A request to run one rank of a case.
struct RankRequest {
  CaseRequest of;
  int rank = 0;
  std::string store_address;  // of the case's store
  int store_port = 0;
  std::string listens_on;                       // an address of the host that runs the rank
  std::optional<DeviceAssignment> device = {};  // where tensors are on a device
  static constexpr auto fields() {
    return std::tuple{field("case", &RankRequest::of),
                      field("rank", &RankRequest::rank, between(0, kWorldMost - 1)),
                      field("store_address", &RankRequest::store_address, address_of_one_host()),
                      field("store_port", &RankRequest::store_port, between(1, 65535)),
                      field("listens_on", &RankRequest::listens_on, address_of_one_host()),
                      field("device", &RankRequest::device)};
  }
};

// A request for what rank 0 cannot see from its host: the output of the rank that ran here, and the
// functions at addresses of the server's processes.
struct LookRequest {
  std::vector<uint64_t> addresses;
  static constexpr auto fields() {
    return std::tuple{field("addresses", &LookRequest::addresses, at_most(1u << 16, {}))};
  }
};

// Exactly one member is set.
struct MemberRequest {
  std::optional<RankRequest> run = {};
  std::optional<LookRequest> look = {};
  static constexpr auto fields() {
    return std::tuple{field("run", &MemberRequest::run), field("look", &MemberRequest::look)};
  }
};
std::string text_of(const MemberRequest& request);
MemberRequest member_request_in(const std::string& text);  // throws TierError, as all below

// The case of a request as its scenario reads it: of the request's world size, with every field in
// its range.
Case case_in(const CaseRequest& request, const Scenario& scenario);

// The end of the rank.
struct RankReply {
  ChildEnd end;
  int left_running = 0;             // processes that it had started and that still ran then
  std::vector<ThreadStack> stacks;  // if it was late or crashed
  bool overflowed = false;          // its journal
  std::string journal;              // its bytes, behind the fields
  static constexpr auto fields() {
    return std::tuple{field("end", &RankReply::end),
                      field("left_running", &RankReply::left_running, between(0, 1 << 22)),
                      field("stacks", &RankReply::stacks, at_most(4096, {})),
                      field("overflowed", &RankReply::overflowed)};
  }
};
std::string text_of(const RankReply& reply);
RankReply rank_reply_in(const std::string& text);

struct LookReply {
  std::string out, err;
  KnownFrames frames;
};
std::string text_of(const LookReply& reply);
LookReply look_reply_in(const std::string& text);

}  // namespace lockstep
