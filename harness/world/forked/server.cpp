#include "harness/world/forked/server.h"

#include "harness/core/text.h"
#include "harness/core/tier.h"
#include "harness/world/ambient.h"
#include "harness/world/gloo.h"
#include "harness/world/shared_memory_store.h"

#include <fcntl.h>
#include <unistd.h>

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

size_t region_bytes(const ColdOptions& options) {
  return kPage + whole_pages(options.store_bytes) +
         static_cast<size_t>(options.ranks_most) * whole_pages(options.journal_bytes);
}

std::string reply_text(const PlayReply& reply) {
  Json ends = Json::array();
  for (const auto& end : reply.group.ends) ends.push_back({static_cast<int>(end.kind), end.code});
  return Json{
      {"ends", ends}, {"stopped", reply.group.stopped}, {"left_running", reply.left_running}}
      .dump();
}

}  // namespace

LaneMemory::LaneMemory(const ColdOptions& options)
    : region(region_bytes(options)), meeting(*reinterpret_cast<Meeting*>(region.bytes().data())) {
  auto rest = region.bytes().subspan(kPage);
  store = take(rest, whole_pages(options.store_bytes));
  for (int rank = 0; rank < options.ranks_most; ++rank)
    journals.push_back(take(rest, whole_pages(options.journal_bytes)));
}

std::string play_request(const PlayRequest& request) {
  return Json{{"scenario", request.c.scenario},
              {"case", request.c.value},
              {"subject", request.subject},
              {"deadline_ms", request.limit.count()}}
      .dump();
}

std::string keep_request(const std::filesystem::path& folder) {
  return Json{{"keep_output", folder.string()}}.dump();
}

PlayReply play_reply(const std::string& text) {
  const Json json = Json::parse(text);
  PlayReply reply;
  reply.group.stopped = json.at("stopped").get<bool>();
  reply.left_running = json.at("left_running").get<int>();
  for (const auto& end : json.at("ends"))
    reply.group.ends.push_back(
        {static_cast<ChildEnd::Kind>(end.at(0).get<int>()), end.at(1).get<int>()});
  return reply;
}

ColdServer::ColdServer(const std::vector<Scenario>& scenarios, const Subjects& subjects,
                       const ColdOptions& options, std::shared_ptr<LaneMemory> memory)
    : scenarios_(scenarios), subjects_(subjects), options_(options), memory_(std::move(memory)) {}

void ColdServer::prepare() {
  cure_gloo_stalls(options_.cure_gloo_stalls);
  const Descriptor nothing(checked(open("/dev/null", O_RDWR | O_CLOEXEC), "/dev/null"));
  checked(dup2(nothing.number(), STDIN_FILENO), "standard input");
  warm_up_for_forks();
  require_forkable();
  const auto root =
      options_.scratch.empty() ? std::filesystem::temp_directory_path() : options_.scratch;
  scratch_ = root / ("lockstep-" + std::to_string(getpid()));
}

std::string ColdServer::serve(const std::string& request, int stop_descriptor) {
  const Json json = Json::parse(request);
  if (json.contains("keep_output")) {
    capture_.keep(json["keep_output"].get<std::string>());
    return "";
  }
  return play({.c = {json.at("scenario").get<std::string>(), json.at("case")},
               .subject = json.at("subject").get<std::string>(),
               .limit = std::chrono::milliseconds(json.at("deadline_ms").get<int64_t>())},
              stop_descriptor);
}

std::string ColdServer::play(const PlayRequest& request, int stop_descriptor) {
  const Scenario& played = scenario(request.c.scenario);
  const Subject& subject = subjects_.at(request.subject);
  const int size = world_size(request.c);
  const auto deadline = std::chrono::steady_clock::now() + request.limit;
  memory_->meeting.returned.store(0);
  SharedMemoryStore::reset(memory_->store);
  for (const auto journal : std::span(memory_->journals).first(static_cast<size_t>(size)))
    JournalView(journal).clear();
  capture_.start(size);
  ChildGroup ranks(size, [&](int rank) {
    ::close(stop_descriptor);
    capture_.redirect(rank);
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
                            .grace = options_.grace,
                            .stop_descriptor = stop_descriptor,
                            .on_bad_end = [&] { memory_->meeting.call_off(); }});
  reply.left_running = end_descendants();
  std::filesystem::remove_all(scratch_);
  return reply_text(reply);
}

void ColdServer::finish() {
  std::filesystem::remove_all(scratch_);
}

const Scenario& ColdServer::scenario(const std::string& name) const {
  std::vector<std::string> names;
  for (const auto& known : scenarios_) {
    if (known.name == name) return known;
    names.push_back(known.name);
  }
  throw TierError("this lane knows no scenario '" + name + "'" + did_you_mean(name, names));
}

}  // namespace lockstep
