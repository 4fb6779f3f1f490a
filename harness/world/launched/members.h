// The processes that a launcher has started for one campaign: how they come together, and what goes
// between them. Rank 0's runs the campaign; each of the others is a member, whose server plays one
// rank of a world for it. docs/architecture.md, "Launched worlds".
//
// Over a TCP connection a member and rank 0 speak the words of a server (process/zygote.h), and
// these.
#pragma once

#include "harness/core/json.h"
#include "harness/core/scenario.h"
#include "harness/process/network.h"
#include "harness/world/devices.h"

#include <optional>
#include <string>
#include <vector>

namespace lockstep {

enum class MemberWord : uint32_t {
  hello = 100,  // a member's first: text of a Hello
  welcome,      // rank 0's answer, once all have come and are alike
  refusal,      // or this: the sentence that says why there is no campaign
  interrupted,  // a member was told to end, and asks rank 0 to end the campaign
  end,          // rank 0's last: text of a CampaignEnd
};

// What a member says of itself.
struct Hello {
  std::string token;  // of the campaign, so that nobody else gets in
  int rank = 0;
  int64_t process = 0;
  std::string host;
  std::string boot;               // equal where clocks are
  std::string listens_on;         // an address of its host at which its ranks can be reached
  Json program;                   // what it could play
  std::optional<int> local_rank;  // among those of its host, where its launcher tells
  DevicesByBackend devices;       // of the campaign's backends those with tensors on devices
};

// Of this process, without local rank and devices. Reads the host's name and the kernel's boot id.
Hello hello_of(int rank, const std::string& listens_on, const std::string& token, Json program);

// What a program could play, to be compared: subjects, and scenarios with their smallest cases.
Json program_of(const std::vector<Scenario>& scenarios, const std::vector<std::string>& subjects);

// The sentence about the first difference, or "" where there is none.
std::string difference(const Json& program_of_rank_zero, const Json& program, int rank);

std::string text_of(const Hello& hello);
// Throws TierError for what is none.
Hello hello_in(const std::string& text);

// "rank 2 (process 4711 on host b)".
std::string name_of(const Hello& member);

// How the campaign ended for all.
struct CampaignEnd {
  bool is_whole = false;  // rank 0 has a report
  std::string why;        // where it has none
};
std::string text_of(const CampaignEnd& end);
CampaignEnd campaign_end_in(const std::string& text);

// A member as rank 0 sees it. Of rank 0 itself the connection is that of its own server, and is not
// the member's to close.
struct Member {
  Hello is;
  Descriptor connection;
};

// Rank 0: blocks until ranks 1 to size - 1 have come and been found alike, and welcomes them;
// returns them in this order. Where one does not come until `until`, or is another program, tells
// all that came and throws TierError with the same sentence. Who does not know the token is turned
// away.
std::vector<Member> gather(const ListeningSocket& listener, const Hello& own, int size,
                           std::chrono::steady_clock::time_point until);

// The others: connects to rank 0, says hello, and blocks until it is welcome. Throws TierError:
// what rank 0 refused with, or that it cannot be reached or does not answer.
Descriptor join(const std::string& address, int port, const Hello& own,
                std::chrono::steady_clock::time_point until);

}  // namespace lockstep
