#include "harness/world/launched/members.h"

#include "harness/core/text.h"
#include "harness/core/tier.h"
#include "harness/process/message.h"
#include "harness/world/launched/seating.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <poll.h>
#include <unistd.h>

namespace lockstep {

namespace {

using Clock = std::chrono::steady_clock;

constexpr uint32_t kHelloBytesMost = 1u << 24;
constexpr std::chrono::seconds kHelloPatience{5};  // with one that has connected

Message message(MemberWord word, std::string text) {
  return {static_cast<uint32_t>(word), std::move(text)};
}

bool is(MemberWord word, const Message& heard) {
  return heard.kind == static_cast<uint32_t>(word);
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

// Nothing of one who says nothing, or what is no hello, or does not know the token.
std::optional<Hello> heard_from(int socket, const std::string& token, Clock::time_point until) {
  if (!is_readable(socket, std::min(until, Clock::now() + kHelloPatience))) return {};
  const auto heard = receive_message(socket, kHelloBytesMost);
  if (!heard || !is(MemberWord::hello, *heard)) return {};
  try {
    auto hello = hello_in(heard->text);
    if (hello.token == token) return hello;
  } catch (const TierError&) {
  }
  return {};
}

[[noreturn]] void refuse(const std::map<int, Member>& came, const std::string& sentence) {
  for (const auto& [rank, member] : came)
    send_message(member.connection.number(), message(MemberWord::refusal, sentence));
  throw TierError(sentence);
}

std::string who_did_not_come(const std::map<int, Member>& came, int size) {
  std::vector<std::string> missing;
  for (int rank = 1; rank < size; ++rank)
    if (!came.contains(rank)) missing.push_back(std::to_string(rank));
  return (missing.size() == 1 ? "rank " : "ranks ") + joined(missing, ", ");
}

// The first name that one has and the other has not.
std::string missing_name(const Json& all, const Json& in) {
  for (const auto& [name, value] : all.items())
    if (!in.contains(name)) return name;
  return "";
}

std::string difference_in(const std::string& what, const Json& ours, const Json& theirs,
                          const std::string& who) {
  if (const auto name = missing_name(ours, theirs); !name.empty())
    return who + " has no " + what + " '" + name + "', which rank 0 has";
  if (const auto name = missing_name(theirs, ours); !name.empty())
    return who + " has the " + what + " '" + name + "', which rank 0 has not";
  for (const auto& [name, value] : ours.items())
    if (value != theirs.at(name))
      return who + " has a " + what + " '" + name + "' with other cases than rank 0's";
  return "";
}

// Rank 0's own MASTER_ADDR may be localhost where the others' is its address.
std::string hint_of(const std::string& address) {
  const bool is_loopback =
      address.starts_with("127.") || address == "::1" || address == "localhost";
  return is_loopback ? "; that is loopback, which no other host reaches: give rank 0 the address "
                       "that the others have as MASTER_ADDR"
                     : "";
}

Descriptor connected(const std::string& address, int port, const Hello& own,
                     Clock::time_point until) {
  try {
    return connect_to(address, port, until);
  } catch (const TierError& error) {
    throw TierError(error.what() + (own.listens_on == address ? "" : hint_of(address)));
  }
}

}  // namespace

Hello hello_of(int rank, const std::string& listens_on, const std::string& token, Json program) {
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

Json program_of(const std::vector<Scenario>& scenarios, const std::vector<std::string>& subjects) {
  Json program{{"subjects", Json::object()}, {"scenarios", Json::object()}};
  for (const auto& name : subjects) program["subjects"][name] = "";
  for (const auto& scenario : scenarios)
    program["scenarios"][scenario.name] = hash_of(scenario.smallest());
  return program;
}

std::string difference(const Json& ours, const Json& theirs, int rank) {
  const auto who = "rank " + std::to_string(rank);
  const auto subjects = difference_in("subject", ours.at("subjects"), theirs.at("subjects"), who);
  const auto found = !subjects.empty() ? subjects
                                       : difference_in("scenario", ours.at("scenarios"),
                                                       theirs.at("scenarios"), who);
  return found.empty() ? "" : "the processes are not of one program: " + found;
}

std::string text_of(const Hello& hello) {
  Json devices = Json::object();
  for (const auto& [backend, seen] : hello.devices) devices[backend] = json_of(seen);
  return Json{{"token", hello.token},
              {"rank", hello.rank},
              {"process", hello.process},
              {"host", hello.host},
              {"boot", hello.boot},
              {"listens_on", hello.listens_on},
              {"program", hello.program},
              {"local_rank", hello.local_rank ? Json(*hello.local_rank) : Json()},
              {"devices", devices}}
      .dump(-1, ' ', false, Json::error_handler_t::replace);
}

Hello hello_in(const std::string& text) {
  try {
    const Json json = Json::parse(text);
    Hello hello{.token = json.at("token").get<std::string>(),
                .rank = json.at("rank").get<int>(),
                .process = json.at("process").get<int64_t>(),
                .host = json.at("host").get<std::string>(),
                .boot = json.at("boot").get<std::string>(),
                .listens_on = json.at("listens_on").get<std::string>(),
                .program = json.at("program"),
                .local_rank = {},
                .devices = {}};
    const Json& local_rank = json.at("local_rank");
    if (!local_rank.is_null()) hello.local_rank = local_rank.get<int>();
    for (const auto& [backend, seen] : json.at("devices").items())
      hello.devices[backend] = seen_devices_in(seen);
    return hello;
  } catch (const Json::exception&) {
    throw TierError("this is no hello: " + text.substr(0, 80));
  }
}

std::string name_of(const Hello& member) {
  return "rank " + std::to_string(member.rank) + " (process " + std::to_string(member.process) +
         " on host " + member.host + ")";
}

std::string text_of(const CampaignEnd& end) {
  return Json{{"is_whole", end.is_whole}, {"why", end.why}}.dump(-1, ' ', false,
                                                                 Json::error_handler_t::replace);
}

CampaignEnd campaign_end_in(const std::string& text) {
  const Json json = Json::parse(text);
  return {.is_whole = json.at("is_whole").get<bool>(), .why = json.at("why").get<std::string>()};
}

std::vector<Member> gather(const ListeningSocket& listener, const Hello& own, int size,
                           Clock::time_point until) {
  std::map<int, Member> came;
  while (static_cast<int>(came.size()) < size - 1) {
    Descriptor connection = accept_from(listener.socket, until);
    if (connection.number() < 0)
      refuse(came, who_did_not_come(came, size) + " did not connect to rank 0 at " +
                       own.listens_on + ", port " + std::to_string(listener.port) + ", in time" +
                       hint_of(own.listens_on));
    auto hello = heard_from(connection.number(), own.token, until);
    if (!hello || hello->rank < 1 || hello->rank >= size || came.contains(hello->rank)) continue;
    const int rank = hello->rank;
    came.emplace(rank, Member{std::move(*hello), std::move(connection)});
  }
  for (const auto& [rank, member] : came)
    if (const auto sentence = difference(own.program, member.is.program, rank); !sentence.empty())
      refuse(came, sentence);
  const auto hello_of_rank = [&](int rank) -> const Hello& {
    return rank == 0 ? own : came.at(rank).is;
  };
  if (const auto sentence = seating_problem({size, hello_of_rank}); !sentence.empty())
    refuse(came, sentence);
  std::vector<Member> members;
  for (auto& [rank, member] : came) {
    send_message(member.connection.number(), message(MemberWord::welcome, ""));
    members.push_back(std::move(member));
  }
  return members;
}

Descriptor join(const std::string& address, int port, const Hello& own, Clock::time_point until) {
  Descriptor connection = connected(address, port, own, until);
  send_message(connection.number(), message(MemberWord::hello, text_of(own)));
  const bool answered = is_readable(connection.number(), until);
  const auto heard = answered ? receive_message(connection.number()) : std::nullopt;
  const auto rank_zero = "rank 0 at " + address + ", port " + std::to_string(port);
  if (!heard)
    throw TierError(rank_zero + (answered ? " closed the connection" : " did not answer in time"));
  if (is(MemberWord::refusal, *heard)) throw TierError(heard->text);
  if (!is(MemberWord::welcome, *heard)) throw TierError(rank_zero + " answers what it should not");
  return connection;
}

}  // namespace lockstep
