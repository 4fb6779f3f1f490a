// The processes that a launcher has started for one campaign: their rendezvous, and the messages
// between them. Rank 0's process runs the campaign; the server of each other process runs one rank
// of a world for it. docs/architecture.md, "Launched worlds".
//
// Over a TCP connection a launched process and rank 0 exchange the messages of a server
// (process/zygote.h), and these.
#pragma once

#include "harness/process/network.h"
#include "harness/worlds/devices/devices.h"
#include "harness/worlds/launched/runnable_program.h"
#include "harness/worlds/wire.h"

#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

enum class RemoteWord : uint32_t {
  handshake = 100,  // the first of a launched process: text of a Handshake
  welcome,          // rank 0's reply, once all have connected and are alike
  refusal,          // or this: the sentence that says why there is no campaign
  interrupted,      // a process was interrupted, and requests that rank 0 end the campaign
  end,              // rank 0's last: text of a CampaignEnd
};

// The description that a launched process sends.
struct Handshake {
  std::string token;  // of the campaign, which rank 0 has chosen
  int rank = 0;
  int64_t process = 0;
  std::string host;
  std::string boot;        // equal where clocks are
  std::string listens_on;  // an address of its host at which its ranks can be reached
  RunnableProgram program;
  std::optional<int> local_rank;  // among those of its host, where its launcher sets one
  DevicesByBackend devices;       // those of the campaign's backends with tensors on devices
  static constexpr auto fields() {
    constexpr int kRanksMost = 65536;
    return std::tuple{
        field("token", &Handshake::token, line_up_to(256)),
        field("rank", &Handshake::rank, between(0, kRanksMost - 1)),
        field("process", &Handshake::process, between(1, std::numeric_limits<pid_t>::max())),
        field("host", &Handshake::host, line_up_to(256)),
        field("boot", &Handshake::boot, line_up_to(256)),
        field("listens_on", &Handshake::listens_on, address_of_one_host()),
        field("program", &Handshake::program),
        field("local_rank", &Handshake::local_rank, between(0, kRanksMost - 1)),
        field("devices", &Handshake::devices, at_most(16, {}))};
  }
};

// Describes this process, without local rank and devices. Reads the host's name and the kernel's
// boot id.
Handshake handshake_of(int rank, const std::string& listens_on, const std::string& token,
                       RunnableProgram program);

std::string text_of(const Handshake& handshake);
// Throws TierError, which names the field, for text that is no handshake.
Handshake handshake_in(const std::string& text);

// Where rank 0 listens, which it publishes to the others.
struct RankZero {
  std::string address;
  int port = 0;
  std::string token;  // of the campaign
  static constexpr auto fields() {
    return std::tuple{field("address", &RankZero::address, address_of_one_host()),
                      field("port", &RankZero::port, between(1, 65535)),
                      field("token", &RankZero::token, line_up_to(256))};
  }
};
// With the proof of `secret`; "" is none.
std::string text_of(const RankZero& rank_zero, const std::string& secret);
// Throws TierError for text that is none and, with what to do, for a proof that is not of `secret`.
RankZero rank_zero_in(const std::string& text, const std::string& secret);

// "rank 2 (process 4711 on host b)".
std::string name_of(const Handshake& member);

// For text that one process sends another, for people to read.
inline constexpr size_t kSentenceBytesMost = 4096;

// How the campaign ended for all.
struct CampaignEnd {
  bool is_whole = false;  // rank 0 has a report
  std::string why;        // where it has none
  static constexpr auto fields() {
    return std::tuple{field("is_whole", &CampaignEnd::is_whole),
                      field("why", &CampaignEnd::why, text_up_to(kSentenceBytesMost))};
  }
};
std::string text_of(const CampaignEnd& end);
CampaignEnd campaign_end_in(const std::string& text);  // throws TierError

// A remote process as rank 0 sees it. For rank 0 itself the connection is that of its own server,
// which this does not close.
struct RemoteProcess {
  Handshake is;
  Descriptor connection;
};

// Note [The campaign's secret]
// LOCKSTEP_SECRET, the same in all processes of a campaign, which `lockstep launch` makes, keeps
// out strangers that reach rank 0's port or pose as rank 0: each side proves that it has the
// secret, by an HMAC over what the other has chosen (rank 0's token, the other's nonce), and
// nothing is sent that shows it. It does not encrypt what follows. Without one the token alone
// distinguishes launched processes from processes that connect by accident.

inline constexpr char kSecretVariable[] = "LOCKSTEP_SECRET";

// proof_of(), or "" without a secret, as the other side's then is.
std::string proof_for(const std::string& secret, const std::string& text);

// Rank 0: blocks until ranks 1 to size - 1 have connected and been found alike, and welcomes them;
// returns them in this order. Where one does not connect until `until`, or is another program,
// reports it to all that connected and throws TierError with the same sentence. A process that does
// not know the token, or `secret` where that is not empty, is turned away.
std::vector<RemoteProcess> gather(const ListeningSocket& listener, const Handshake& own, int size,
                                  std::chrono::steady_clock::time_point until,
                                  const std::string& secret = "");

// The others: connects to rank 0, sends the handshake, and blocks until it is welcome. Throws
// TierError: rank 0's refusal, that it does not prove `secret`, or that it cannot be reached or
// does not answer.
Descriptor join(const std::string& address, int port, const Handshake& own,
                std::chrono::steady_clock::time_point until, const std::string& secret = "");

}  // namespace lockstep
