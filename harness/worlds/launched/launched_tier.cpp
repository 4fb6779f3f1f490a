#include "harness/worlds/launched/launched_tier.h"

#include "harness/process/message.h"
#include "harness/worlds/forked/memory.h"
#include "harness/worlds/forked/rank.h"
#include "harness/worlds/forked/rendezvous.h"
#include "harness/worlds/launched/device_assignment.h"
#include "harness/worlds/launched/rank_server.h"

#include <algorithm>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

namespace lockstep {

namespace {

// The time for the other processes to leave, so that a launcher sees them gone before rank 0.
constexpr std::chrono::seconds kLeavePatience{5};

bool ended_as_it_should(const RankReply& reply) {
  return reply.end == ChildEnd{ChildEnd::Kind::exited, kCaseHasRun};
}

// Times of unrelated clocks have no order.
History without_times(const History& history) {
  auto ranks = history.ranks();
  for (auto& rank : ranks) {
    rank.ending.at = {};
    for (auto& event : rank.events)
      if (auto* issued = std::get_if<Collective>(&event.what)) issued->times = {};
  }
  return History(std::move(ranks));
}

History refused_by_all(int size, const std::string& why) {
  RankHistory refused;
  refused.ending = {Ending::Kind::refused, why};
  return History(std::vector<RankHistory>(static_cast<size_t>(size), refused));
}

}  // namespace

std::unique_ptr<Zygote> launched_server(const SingleThreaded& alone,
                                        const std::vector<Scenario>& scenarios,
                                        const Subjects& subjects, const ForkedOptions& options) {
  auto own = options;
  own.ranks_most = 1;
  ask_for_no_names();
  const auto memory = std::make_shared<LaneMemory>(own);
  return std::make_unique<Zygote>(
      alone, served_by(std::make_shared<RankServer>(scenarios, subjects, own, memory)));
}

LaunchedTier::LaunchedTier(LaunchedParts parts)
    : parts_(std::move(parts)), wake_(checked(eventfd(0, EFD_CLOEXEC), "an eventfd")) {
  sockets_.push_back(parts_.server->descriptor());
  for (const auto& member : parts_.members) {
    sockets_.push_back(member.connection.number());
    clocks_differ_ = clocks_differ_ || member.is.boot != parts_.own.boot;
  }
}

LaunchedTier::~LaunchedTier() {
  if (!ended_) end({.why = "rank 0's process ended before its campaign had"});
}

const Handshake& LaunchedTier::member(int rank) const {
  return rank == 0 ? parts_.own : parts_.members.at(static_cast<size_t>(rank) - 1).is;
}

std::vector<std::optional<DeviceAssignment>> LaunchedTier::device_assignments_for(
    const CaseRequest& request) const {
  const auto count = static_cast<size_t>(request.size);
  if (!parts_.own.devices.contains(request.backend))
    return std::vector<std::optional<DeviceAssignment>>(count);
  const auto at = [this](int rank) -> const Handshake& { return member(rank); };
  const auto assignments =
      device_assignments_of({size(), at}, request.backend, request.size, name_of_world());
  return {assignments.begin(), assignments.end()};
}

int LaunchedTier::Round::awaited() const {
  return static_cast<int>(
      std::count_if(replies.begin(), replies.end(), [](const auto& reply) { return !reply; }));
}

bool LaunchedTier::send(int rank, ServerWord word, const std::string& text) {
  return send_message(sockets_.at(static_cast<size_t>(rank)), {static_cast<uint32_t>(word), text});
}

// The first loss is reported; later ones are its consequences.
void LaunchedTier::lose(int rank, const std::string& how) {
  if (lost_.empty()) lost_ = name_of(member(rank)) + " " + how;
}

History LaunchedTier::run(const Scenario&, const Case& c, const Setting& setting,
                          const CaseRunOptions& options) {
  if (!traits_of(setting).is_launched)
    throw TierError("a launched lane runs launched worlds, not '" + setting.tier + "'");
  if (stopped_) throw Interrupted();
  if (!lost_.empty()) throw TierLost(lost_);
  const int wanted = world_size(c);
  stacks_.clear();
  call_sites_.clear();
  if (wanted > size())
    return refused_by_all(wanted, "a world of " + std::to_string(wanted) + " wants more than the " +
                                      std::to_string(size()) +
                                      (size() == 1 ? " process" : " processes") + " launched");
  std::optional<ServedStore> store;
  try {
    store.emplace(parts_.own.listens_on, listen_on(parts_.own.listens_on));
  } catch (const std::exception& error) {
    throw TierError(std::string("a store for the case could not be served: ") + error.what());
  }
  ++cases_;
  auto round = run_round({.of = {.scenario = c.scenario,
                                 .subject = setting.subject,
                                 .tier = setting.tier,
                                 .backend = setting.backend,
                                 .size = wanted,
                                 .time_limit = options.time_limit,
                                 .case_value = c.value.dump()},
                          .store_address = parts_.own.listens_on,
                          .store_port = store->port()},
                         *store);
  if (stopped_) throw Interrupted();
  if (!lost_.empty()) throw TierLost(lost_);
  if (!round.failure.empty()) throw TierError(round.failure);
  return history_of_round(std::move(round));
}

LaunchedTier::Round LaunchedTier::run_round(RankRequest request, ServedStore& store) {
  const auto count = static_cast<size_t>(request.of.size);
  Round round{.replies = std::vector<std::optional<RankReply>>(count),
              .late = std::vector<bool>(count, false),
              .deadline = Clock::now() + request.of.time_limit + parts_.grace + kAnswerSlack};
  const auto assignments = device_assignments_for(request.of);
  for (int rank = 0; rank < request.of.size; ++rank) {
    request.rank = rank;
    request.device = assignments[static_cast<size_t>(rank)];
    request.listens_on = member(rank).listens_on;
    if (!send(rank, ServerWord::request, text_of(MemberRequest{.run = request})))
      lose(rank, "is gone");
  }
  while (round.awaited() > 0) {
    if ((stopped_ || !lost_.empty()) && !round.stop_is_sent) cut(round);
    std::vector<pollfd> readable;
    for (const int socket : sockets_) readable.push_back({socket, POLLIN, 0});
    if (!round.stop_is_sent) readable.push_back({wake_.number(), POLLIN, 0});
    poll(readable.data(), readable.size(), milliseconds_until(round.deadline));
    for (int rank = 0; rank < size(); ++rank)
      if (readable[static_cast<size_t>(rank)].revents != 0) receive_from(rank, round, store);
    let_late_ones_go_on(round);
    if (Clock::now() >= round.deadline) on_deadline(round);
  }
  return round;
}

// A process without a rank in this world is polled as well: it may be gone, or be interrupted.
void LaunchedTier::receive_from(int rank, Round& round, ServedStore& store) {
  const auto received = receive_message(sockets_[static_cast<size_t>(rank)], kReplyBytesMost);
  const auto at = static_cast<size_t>(rank);
  const bool is_awaited = at < round.replies.size() && !round.replies[at];
  const bool is_known =
      received && (received->kind <= static_cast<uint32_t>(ServerWord::go_on) ||
                   received->kind == static_cast<uint32_t>(RemoteWord::interrupted));
  if (!is_known) {
    lose(rank,
         received ? "sent what no member sends: a message of kind " + std::to_string(received->kind)
                  : "is gone");
    sockets_[at] = -1;  // no longer polled
    if (is_awaited) round.replies[at].emplace();
  } else if (received->kind == static_cast<uint32_t>(RemoteWord::interrupted)) {
    if (parts_.on_interrupt) parts_.on_interrupt();
    stopped_ = true;
  } else if (!is_awaited) {
    return;
  } else if (received->kind == static_cast<uint32_t>(ServerWord::late)) {
    round.late[at] = true;
  } else if (received->kind == static_cast<uint32_t>(ServerWord::failure)) {
    if (round.failure.empty()) round.failure = name_of(member(rank)) + ": " + received->text;
    round.replies[at].emplace();
    cut(round);
  } else if (received->kind == static_cast<uint32_t>(ServerWord::reply)) {
    take_reply(rank, received->text, round, store);
  }
}

void LaunchedTier::take_reply(int rank, const std::string& text, Round& round, ServedStore& store) {
  auto& reply = round.replies[static_cast<size_t>(rank)];
  try {
    reply = rank_reply_in(text);
  } catch (const TierError& error) {
    lose(rank, std::string("sent what no member sends: ") + error.what());
    reply.emplace();
    return;
  }
  if (ended_as_it_should(*reply) || round.has_bad_end) return;
  round.has_bad_end = true;
  try {
    call_off(store);
  } catch (const std::exception&) {
    // The own store failed: then nothing works here, and all end at the deadline.
  }
  if (!round.stop_is_sent) round.deadline = std::min(round.deadline, Clock::now() + parts_.grace);
}

// Note [Late together]
void LaunchedTier::let_late_ones_go_on(Round& round) {
  bool any = false;
  for (size_t rank = 0; rank < round.replies.size(); ++rank) {
    if (round.replies[rank]) continue;
    if (!round.late[rank]) return;
    any = true;
  }
  if (!any) return;
  for (size_t rank = 0; rank < round.replies.size(); ++rank)
    if (!round.replies[rank] && round.late[rank]) {
      send(static_cast<int>(rank), ServerWord::go_on);
      round.late[rank] = false;
    }
  round.deadline = Clock::now() + kAnswerSlack;
}

void LaunchedTier::cut(Round& round) {
  if (round.stop_is_sent) return;
  round.stop_is_sent = true;
  round.deadline = Clock::now() + kAnswerSlack;
  for (size_t rank = 0; rank < round.replies.size(); ++rank)
    if (!round.replies[rank]) send(static_cast<int>(rank), ServerWord::stop);
}

// The grace is over, or a server does not reply.
void LaunchedTier::on_deadline(Round& round) {
  if (round.has_bad_end && !round.stop_is_sent) return cut(round);
  for (size_t rank = 0; rank < round.replies.size(); ++rank) {
    if (round.replies[rank]) continue;
    lose(static_cast<int>(rank), "does not answer");
    round.replies[rank].emplace();
  }
}

History LaunchedTier::history_of_round(Round round) {
  CaseReply all;
  std::vector<RankRecords> records;
  all.left.resize(round.replies.size());
  for (size_t rank = 0; rank < round.replies.size(); ++rank) {
    auto& reply = *round.replies[rank];
    auto& bytes = reply.journal;
    all.group.ends.push_back(reply.end);
    if (reply.left_running > 0)
      all.left[rank].push_back(std::to_string(reply.left_running) +
                               " process(es) that it had started still ran when it had gone");
    if (!reply.stacks.empty()) stacks_[static_cast<int>(rank)] = reply.stacks;
    records.push_back(
        {read_frames(reinterpret_cast<std::byte*>(bytes.data()), bytes.size()), reply.overflowed});
  }
  all.stacks = stacks_;
  for (const auto& of_rank : records) call_sites_.push_back(call_sites(of_rank.frames));
  const auto history = history_of(all, records);
  return clocks_differ_ ? without_times(history) : history;
}

void LaunchedTier::stop() {
  stopped_ = true;
  const uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(wake_.number(), &one, sizeof(one));
}

void LaunchedTier::end(const CampaignEnd& how) {
  ended_ = true;
  const auto until = Clock::now() + kLeavePatience;
  for (const auto& member : parts_.members)
    send_message(member.connection.number(),
                 {static_cast<uint32_t>(RemoteWord::end), text_of(how)});
  for (const auto& member : parts_.members) {
    pollfd readable{member.connection.number(), POLLIN, 0};
    while (Clock::now() < until && poll(&readable, 1, milliseconds_until(until)) == 1)
      if (!receive_message(member.connection.number())) break;
  }
}

}  // namespace lockstep
