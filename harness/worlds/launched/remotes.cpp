#include "harness/worlds/launched/remotes.h"

#include "harness/base/characters.h"
#include "harness/base/text.h"
#include "harness/cases/tier.h"
#include "harness/process/message.h"
#include "harness/process/secret.h"
#include "harness/worlds/launched/device_assignment.h"
#include "harness/worlds/wire.h"

#include <algorithm>
#include <fstream>
#include <list>
#include <map>
#include <poll.h>
#include <unistd.h>

namespace lockstep {

namespace {

using Clock = std::chrono::steady_clock;

constexpr uint32_t kHandshakeBytesMost = 1u << 20, kAnswerBytesMost = 1u << 16;
constexpr std::chrono::seconds kHandshakePatience{5};  // for a process that has connected
constexpr size_t kCallersMost = 256;  // that have not sent their handshake; the first gives way

Message message(RemoteWord word, std::string text) {
  return {static_cast<uint32_t>(word), std::move(text)};
}

bool is(RemoteWord word, const Message& received) {
  return received.kind == static_cast<uint32_t>(word);
}

std::string first_line_of(const std::string& file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  return line;
}

bool is_readable(int socket, Clock::time_point until) {
  pollfd readable{socket, POLLIN, 0};
  int ready = 0;
  while ((ready = poll(&readable, 1, milliseconds_until(until))) < 1 && Clock::now() < until) {
  }
  return ready == 1;
}

// The first message of a launched process, before its handshake.
struct Introduction {
  std::string nonce, proof;
  static constexpr auto fields() {
    return std::tuple{field("nonce", &Introduction::nonce, line_up_to(256)),
                      field("proof", &Introduction::proof, line_up_to(256))};
  }
};

std::string proof_of_member(const std::string& secret, const std::string& nonce,
                            std::string_view handshake) {
  return proof_for(secret, "member\n" + nonce + "\n" + std::string(handshake));
}

std::string proof_of_welcome(const std::string& secret, const std::string& nonce) {
  return proof_for(secret, "welcome\n" + nonce);
}

struct Introduced {
  Handshake handshake;
  std::string nonce;
};

// Nothing for a message that is no handshake, or does not know the token or the secret.
std::optional<Introduced> introduced(const Message& received, const std::string& token,
                                     const std::string& secret) {
  if (!is(RemoteWord::handshake, received)) return {};
  const std::string what = "the first message of a launched process";
  try {
    const auto [line, bytes] = line_and_bytes(received.text, what);
    const auto introduction = from_wire<Introduction>(line, what);
    if (!same_proof(introduction.proof, proof_of_member(secret, introduction.nonce, bytes)))
      return {};
    auto handshake = handshake_in(std::string(bytes));
    if (handshake.token == token) return Introduced{std::move(handshake), introduction.nonce};
  } catch (const TierError&) {
  }
  return {};
}

// A connection whose handshake has not arrived yet. Each has its own deadline for it, whatever it
// sends until then, so that strangers hold up nobody.
struct Caller {
  Descriptor connection;
  Clock::time_point until;
  PartialMessage message{kHandshakeBytesMost};
};

// Waits for all callers at once.
class Reception {
 public:
  explicit Reception(const ListeningSocket& listener) : listener_(listener) {}

  // The connections whose first message has arrived, with it; none for a while, or for good once
  // `until` has passed. Ends those that are gone or late.
  std::vector<std::pair<Descriptor, Message>> next(Clock::time_point until) {
    wait(until);
    admit();
    std::vector<std::pair<Descriptor, Message>> ready;
    for (auto caller = callers_.begin(); caller != callers_.end();) {
      const bool is_there = caller->message.receive_from(caller->connection.number());
      if (auto message = caller->message.whole())
        ready.emplace_back(std::move(caller->connection), std::move(*message));
      else if (is_there && Clock::now() < caller->until) {
        ++caller;
        continue;
      }
      caller = callers_.erase(caller);
    }
    return ready;
  }

 private:
  void wait(Clock::time_point until) {
    std::vector<pollfd> readable{{listener_.socket.number(), POLLIN, 0}};
    for (const auto& caller : callers_) {
      readable.push_back({caller.connection.number(), POLLIN, 0});
      until = std::min(until, caller.until);
    }
    poll(readable.data(), readable.size(), milliseconds_until(until));
  }

  void admit() {
    for (;;) {
      Descriptor connection = accept_from(listener_.socket, Clock::now());
      if (connection.number() < 0) return;
      if (callers_.size() == kCallersMost) callers_.pop_front();
      callers_.push_back({std::move(connection), Clock::now() + kHandshakePatience});
    }
  }

  const ListeningSocket& listener_;
  std::list<Caller> callers_;  // the first came first
};

[[noreturn]] void refuse(const std::map<int, RemoteProcess>& came, const std::string& sentence) {
  for (const auto& [rank, member] : came)
    send_message(member.connection.number(), message(RemoteWord::refusal, sentence));
  throw TierError(sentence);
}

std::string who_did_not_come(const std::map<int, RemoteProcess>& came, int size) {
  std::vector<std::string> missing;
  for (int rank = 1; rank < size; ++rank)
    if (!came.contains(rank)) missing.push_back(std::to_string(rank));
  return (missing.size() == 1 ? "rank " : "ranks ") + joined(missing, ", ");
}

// Rank 0's own MASTER_ADDR may be localhost where the others' is its address.
std::string hint_of(const std::string& address) {
  const bool is_loopback =
      address.starts_with("127.") || address == "::1" || address == "localhost";
  return is_loopback ? "; that is loopback, which no other host reaches: with ranks on several "
                       "hosts give rank 0 the address that the others have as MASTER_ADDR"
                     : "";
}

Descriptor connected(const std::string& address, int port, const Handshake& own,
                     Clock::time_point until) {
  try {
    return connect_to(address, port, until);
  } catch (const TierError& error) {
    throw TierError(error.what() + (own.listens_on == address ? "" : hint_of(address)));
  }
}

}  // namespace

Handshake handshake_of(int rank, const std::string& listens_on, const std::string& token,
                       RunnableProgram program) {
  char host[256] = "";
  if (::gethostname(host, sizeof(host) - 1) != 0) throw TierError("this host has no name");
  return {.token = token,
          .rank = rank,
          .process = ::getpid(),
          .host = host,
          .boot = first_line_of("/proc/sys/kernel/random/boot_id"),
          .listens_on = listens_on,
          .program = std::move(program),
          .local_rank = {},
          .devices = {}};
}

std::string name_of(const Handshake& member) {
  return "rank " + std::to_string(member.rank) + " (process " + std::to_string(member.process) +
         " on host " + member.host + ")";
}

std::vector<RemoteProcess> gather(const ListeningSocket& listener, const Handshake& own, int size,
                                  Clock::time_point until, const std::string& secret) {
  std::map<int, RemoteProcess> came;
  std::map<int, std::string> nonces;
  Reception reception(listener);
  while (static_cast<int>(came.size()) < size - 1) {
    if (Clock::now() >= until)
      refuse(came, who_did_not_come(came, size) + " did not connect to rank 0 at " +
                       own.listens_on + ", port " + std::to_string(listener.port) + ", in time" +
                       (secret.empty() ? "; rank 0 has no LOCKSTEP_SECRET, and one that has does "
                                         "not connect"
                                       : "; rank 0 has a LOCKSTEP_SECRET, and one with another, or "
                                         "with none, does not connect or is turned away") +
                       hint_of(own.listens_on));
    for (auto& [connection, message] : reception.next(until)) {
      auto received = introduced(message, own.token, secret);
      if (!received) continue;
      const int rank = received->handshake.rank;
      if (rank < 1 || rank >= size || came.contains(rank)) continue;
      came.emplace(rank, RemoteProcess{std::move(received->handshake), std::move(connection)});
      nonces[rank] = received->nonce;
    }
  }
  for (const auto& [rank, member] : came)
    if (const auto sentence = difference(own.program, member.is.program, rank); !sentence.empty())
      refuse(came, sentence);
  const auto handshake_of_rank = [&](int rank) -> const Handshake& {
    return rank == 0 ? own : came.at(rank).is;
  };
  if (const auto sentence = device_assignment_problem({size, handshake_of_rank}); !sentence.empty())
    refuse(came, sentence);
  std::vector<RemoteProcess> members;
  for (auto& [rank, member] : came) {
    send_message(member.connection.number(),
                 message(RemoteWord::welcome, proof_of_welcome(secret, nonces[rank])));
    members.push_back(std::move(member));
  }
  return members;
}

Descriptor join(const std::string& address, int port, const Handshake& own, Clock::time_point until,
                const std::string& secret) {
  Descriptor connection = connected(address, port, own, until);
  const auto handshake = text_of(own);
  Introduction introduction{.nonce = fresh_token(), .proof = ""};
  introduction.proof = proof_of_member(secret, introduction.nonce, handshake);
  send_message(connection.number(),
               message(RemoteWord::handshake, with_bytes(to_wire(introduction), handshake)));
  const bool answered = is_readable(connection.number(), until);
  const auto received =
      answered ? receive_message(connection.number(), kAnswerBytesMost) : std::nullopt;
  const auto rank_zero = "rank 0 at " + address + ", port " + std::to_string(port);
  if (!received)
    throw TierError(rank_zero + (answered ? " closed the connection" : " did not answer in time"));
  if (is(RemoteWord::refusal, *received) && received->text.size() <= kSentenceBytesMost &&
      is_one_line(received->text))
    throw TierError(received->text);
  if (!is(RemoteWord::welcome, *received))
    throw TierError(rank_zero + " answers what it should not");
  if (!same_proof(received->text, proof_of_welcome(secret, introduction.nonce)))
    throw TierError(rank_zero + " does not prove that it has the LOCKSTEP_SECRET of this process");
  return connection;
}

}  // namespace lockstep
