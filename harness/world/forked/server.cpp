#include "harness/world/forked/server.h"

#include "harness/core/text.h"
#include "harness/core/tier.h"
#include "harness/process/message.h"
#include "harness/world/ambient.h"
#include "harness/world/gloo.h"
#include "harness/world/shared_memory_store.h"

#include <algorithm>
#include <array>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>

namespace lockstep {

namespace {

constexpr size_t kPage = 4096;

std::span<std::byte> take(std::span<std::byte>& rest, size_t bytes) {
  const auto taken = rest.first(bytes);
  rest = rest.subspan(bytes);
  return taken;
}

size_t whole_pages(size_t bytes) {
  return (bytes + kPage - 1) / kPage * kPage;
}

size_t region_bytes(const ForkedOptions& options) {
  return kPage + whole_pages(options.store_bytes) +
         static_cast<size_t>(options.ranks_most) * whole_pages(options.journal_bytes);
}

// Ranks of warm worlds that a lane keeps alive; more only cost memory.
constexpr int kStandingRanksMost = 16;

// Messages between the server and a rank of a warm world.
enum : uint32_t { kOrder, kReport };

std::vector<int> numbers_of(const std::vector<Descriptor>& descriptors) {
  std::vector<int> out;
  for (const auto& descriptor : descriptors) out.push_back(descriptor.number());
  return out;
}

// For a new case, or for ranks that are to meet.
void clear_memory(LaneMemory& memory, int size) {
  memory.meeting.returned.store(0);
  SharedMemoryStore::reset(memory.store);
  for (const auto journal : std::span(memory.journals).first(static_cast<size_t>(size)))
    JournalView(journal).clear();
}

}  // namespace

std::string keep_request(const std::filesystem::path& folder) {
  return Json{{"keep_output", folder.string()}}.dump();
}

LaneMemory::LaneMemory(const ForkedOptions& options)
    : region(region_bytes(options)), meeting(*reinterpret_cast<Meeting*>(region.bytes().data())) {
  auto rest = region.bytes().subspan(kPage);
  store = take(rest, whole_pages(options.store_bytes));
  for (int rank = 0; rank < options.ranks_most; ++rank)
    journals.push_back(take(rest, whole_pages(options.journal_bytes)));
}

ForkedServer::ForkedServer(const std::vector<Scenario>& scenarios, const Subjects& subjects,
                           const ForkedOptions& options, std::shared_ptr<LaneMemory> memory)
    : scenarios_(scenarios), subjects_(subjects), options_(options), memory_(std::move(memory)) {}

void ForkedServer::prepare() {
  cure_gloo_stalls(options_.cure_gloo_stalls);
  const Descriptor nothing(checked(open("/dev/null", O_RDWR | O_CLOEXEC), "/dev/null"));
  checked(dup2(nothing.number(), STDIN_FILENO), "standard input");
  warm_up_for_forks();
  require_forkable();
  const auto root =
      options_.scratch.empty() ? std::filesystem::temp_directory_path() : options_.scratch;
  scratch_ = root / ("lockstep-" + std::to_string(getpid()));
}

std::string ForkedServer::serve(const std::string& text, int stop_descriptor) {
  const Json json = Json::parse(text);
  if (json.contains("keep_output")) {
    capture_->keep(json["keep_output"].get<std::string>());
    return "";
  }
  const auto request = play_request_in(text);
  return play_reply(request.tier == "warm" ? play_warm(request, stop_descriptor)
                                           : play_cold(request, stop_descriptor));
}

PlayReply ForkedServer::play_cold(const PlayRequest& request, int stop_descriptor) {
  const Scenario& played = scenario(request.c.scenario);
  const Subject& subject = subjects_.at(request.subject);
  const int size = world_size(request.c);
  const auto deadline = Clock::now() + request.limit;
  standing_.clear();  // what a cold case leaves running is told from what lives on
  clear_memory(*memory_, size);
  capture_->start(size);
  ChildGroup ranks(size, [&](int rank) {
    ::close(stop_descriptor);
    capture_->redirect(rank);
    return run_rank({.scenario = played,
                     .c = request.c,
                     .subject = subject,
                     .rank = rank,
                     .size = size,
                     .journal = memory_->journals[static_cast<size_t>(rank)],
                     .store = memory_->store,
                     .meeting = memory_->meeting,
                     .scratch = scratch_,
                     .deadline = deadline});
  });
  PlayReply reply;
  reply.group = ranks.wait({.deadline = deadline,
                            .good_status = kPlayed,
                            .grace = options_.grace,
                            .stop_descriptor = stop_descriptor,
                            .on_bad_end = [&] { memory_->meeting.call_off(); }});
  reply.left_running = end_descendants();
  std::filesystem::remove_all(scratch_);
  return reply;
}

PlayReply ForkedServer::play_warm(const PlayRequest& request, int stop_descriptor) {
  const int size = world_size(request.c);
  scenario(request.c.scenario);
  subjects_.at(request.subject);
  PlayReply reply;
  StandingWorld* const standing =
      standing_world(size, Clock::now() + request.limit, stop_descriptor);
  reply.group.stopped = standing == nullptr;
  if (!standing) return reply;
  StandingWorld& world = *standing;
  world.used = ++cases_;
  capture_ = world.capture;
  reply.left.resize(static_cast<size_t>(size));
  if (world.ranks->is_whole()) {
    clear_memory(*memory_, size);
    capture_->start(size);
    const auto deadline = Clock::now() + request.limit;
    for (const auto& socket : world.sockets)
      send_message(socket.number(), {kOrder, play_request(request)});
    reply.group = world.ranks->wait({.deadline = deadline,
                                     .good_status = -1,
                                     .grace = options_.grace,
                                     .stop_descriptor = stop_descriptor,
                                     .reports = numbers_of(world.sockets),
                                     .on_bad_end = [&] { memory_->meeting.call_off(); }});
  }
  // Every rank has reported or is gone, or both: nothing here blocks.
  bool usable = world.ranks->is_whole();
  for (size_t rank = 0; rank < world.sockets.size(); ++rank) {
    const auto report = receive_message(world.sockets[rank].number());
    if (report) reply.left[rank] = Json::parse(report->text).get<std::vector<std::string>>();
    usable = usable && report && reply.left[rank].empty();
  }
  std::filesystem::remove_all(scratch_);
  if (usable) return reply;
  // Whatever the ranks left running is nobody's child now but ours, as are the other worlds.
  standing_.clear();
  reply.left_running = end_descendants();
  return reply;
}

ForkedServer::StandingWorld* ForkedServer::standing_world(int size, Clock::time_point deadline,
                                                          int stop_descriptor) {
  const auto found = standing_.find(size);
  if (found != standing_.end()) return &found->second;
  make_room(size);
  clear_memory(*memory_, size);
  StandingWorld& world =
      standing_.emplace(size, make_standing_world(size, stop_descriptor)).first->second;
  const auto report = world.ranks->wait({.deadline = deadline,
                                         .stop_descriptor = stop_descriptor,
                                         .reports = numbers_of(world.sockets)});
  if (!world.ranks->is_whole()) {
    standing_.clear();
    end_descendants();
    if (report.stopped) return nullptr;
    throw TierError("a warm world of " + std::to_string(size) + " ranks could not be made");
  }
  for (const auto& socket : world.sockets) receive_message(socket.number());
  return &world;
}

ForkedServer::StandingWorld ForkedServer::make_standing_world(int size, int stop_descriptor) {
  StandingWorld world;
  world.capture = std::make_shared<Capture>();
  world.capture->start(size);
  std::vector<Descriptor> theirs;
  for (int rank = 0; rank < size; ++rank) {
    std::array<int, 2> ends{};
    checked(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), "a pair of sockets");
    world.sockets.emplace_back(ends[0]);
    theirs.emplace_back(ends[1]);
  }
  world.ranks = std::make_unique<ChildGroup>(size, [&](int rank) {
    ::close(stop_descriptor);
    world.capture->redirect(rank);
    const int socket = theirs[static_cast<size_t>(rank)].number();
    for (auto& other : world.sockets) other.close();
    for (auto& other : theirs)
      if (other.number() != socket) other.close();
    for (auto& [other_size, other] : standing_)
      for (auto& other_socket : other.sockets) other_socket.close();
    return stand_rank(rank, size, socket);
  });
  return world;
}

int ForkedServer::stand_rank(int rank, int size, int socket) {
  bool is_first = true;
  return serve_rank({.rank = rank,
                     .size = size,
                     .journal = memory_->journals[static_cast<size_t>(rank)],
                     .store = memory_->store,
                     .meeting = memory_->meeting,
                     .scratch = scratch_,
                     .next = [&]() -> std::optional<RankOrder> {
                       if (std::exchange(is_first, false)) send_message(socket, {kReport, "[]"});
                       const auto order = receive_message(socket);
                       if (!order) return {};
                       return order_in(order->text);
                     },
                     .done =
                         [&](const std::vector<std::string>& left) {
                           send_message(socket, {kReport, Json(left).dump()});
                         }});
}

RankOrder ForkedServer::order_in(const std::string& text) const {
  auto request = play_request_in(text);
  return {.scenario = scenario(request.c.scenario),
          .c = std::move(request.c),
          .subject = subjects_.at(request.subject),
          .limit = request.limit};
}

// Ends the worlds that were not used for longest, until one of `size` ranks more is not too many.
void ForkedServer::make_room(int size) {
  const auto ranks = [&] {
    int count = size;
    for (const auto& [other, world] : standing_) count += other;
    return count;
  };
  while (!standing_.empty() && ranks() > kStandingRanksMost)
    standing_.erase(std::min_element(
        standing_.begin(), standing_.end(),
        [](const auto& a, const auto& b) { return a.second.used < b.second.used; }));
}

void ForkedServer::finish() {
  standing_.clear();
  std::filesystem::remove_all(scratch_);
}

const Scenario& ForkedServer::scenario(const std::string& name) const {
  std::vector<std::string> names;
  for (const auto& known : scenarios_) {
    if (known.name == name) return known;
    names.push_back(known.name);
  }
  throw TierError("this lane knows no scenario '" + name + "'" + did_you_mean(name, names));
}

}  // namespace lockstep
