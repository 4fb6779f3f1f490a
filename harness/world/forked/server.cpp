#include "harness/world/forked/server.h"

#include "harness/core/text.h"
#include "harness/core/tier.h"
#include "harness/process/journal.h"
#include "harness/process/message.h"
#include "harness/process/zygote.h"
#include "harness/world/ambient.h"
#include "harness/world/device_backend.h"
#include "harness/world/gloo.h"

#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

namespace lockstep {

namespace {

const std::string kKeepOutput = "keep output in ";

// What the threads of one process get to tell where they are.
constexpr std::chrono::milliseconds kStackPatience{200};

// Large simulated worlds have two output files for each rank.
void allow_many_descriptors() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace

std::string keep_request(const std::filesystem::path& folder) {
  return kKeepOutput + folder.string();
}

ForkedServer::ForkedServer(const std::vector<Scenario>& scenarios, const Subjects& subjects,
                           const ForkedOptions& options, std::shared_ptr<LaneMemory> memory)
    : scenarios_(scenarios), subjects_(subjects), options_(options), memory_(std::move(memory)) {}

void ForkedServer::prepare() {
  cure_gloo_stalls(options_.cure_gloo_stalls);
  const Descriptor nothing(checked(open("/dev/null", O_RDWR | O_CLOEXEC), "/dev/null"));
  checked(dup2(nothing.number(), STDIN_FILENO), "standard input");
  allow_many_descriptors();
  // What ranks of a case tell of their failures, injected ones among them, is not for the launcher
  // of this program.
  ::unsetenv("TORCHELASTIC_ERROR_FILE");
  answer_on(memory_->stacks);
  for (const auto& each : options_.backends)
    if (each.device && each.why_not.empty()) each.device->before_forks();
  warm_up_for_forks();
  require_forkable();
  const auto root =
      options_.scratch.empty() ? std::filesystem::temp_directory_path() : options_.scratch;
  scratch_ = root / ("lockstep-" + std::to_string(getpid()));
}

std::string ForkedServer::serve(const std::string& text, int stop_descriptor) {
  if (text.starts_with(kKeepOutput)) {
    capture_->keep(text.substr(kKeepOutput.size()));
    return "";
  }
  if (is_look_request(text)) return look(look_request_in(text));
  const auto request = play_request_in(text);
  scenario(request.scenario);  // throws what the runner is to hear
  subjects_.at(request.subject);
  if (request.tier == "sim") return text_of(play_sim(request, stop_descriptor));
  if (request.tier == "warm") return text_of(play_warm(request, stop_descriptor));
  return text_of(play_cold(request, stop_descriptor));
}

// Ranks whose processes are forked for this one case: all of its world, or the one of a launched
// world that is to be played here.
PlayReply ForkedServer::play_cold(const PlayRequest& request, int stop_descriptor) {
  const Scenario& played = scenario(request.scenario);
  const Subject& subject = subjects_.at(request.subject);
  const Case c = case_of(request);
  const int first = request.abroad ? request.abroad->rank : 0;
  const int here = request.abroad ? 1 : request.size;
  const auto deadline = Clock::now() + request.limit;
  const auto gathering = gathering_of(request);
  const auto scratch = scratch_of(request);
  affinity_.roam();
  // What a cold case leaves running is told from what lives on.
  warm_.clear();
  host_.reset();
  memory_->clear(here);
  capture_->start(here);
  ChildGroup ranks(here, [&](int index) {
    ::close(stop_descriptor);
    capture_->redirect(index);
    return run_rank({.scenario = played,
                     .c = c,
                     .subject = subject,
                     .rank = first + index,
                     .size = request.size,
                     .journal = memory_->journal(index, here),
                     .gathering = *gathering,
                     .backend = device_backend(request),
                     .seat = request.abroad ? request.abroad->seat : std::nullopt,
                     .scratch = scratch,
                     .deadline = deadline});
  });
  PlayReply reply;
  const auto look_at_late_ones = look_at_stacks(reply);
  reply.group = ranks.wait({.deadline = deadline,
                            .good_status = kPlayed,
                            .grace = options_.grace,
                            .stop_descriptor = stop_descriptor,
                            .on_bad_end = [&] { memory_->meeting.call_off(); },
                            .on_deadline =
                                [&](const auto& late) {
                                  look_at_late_ones(late);
                                  if (!request.abroad) return;
                                  for (const auto& [index, pid] : late) ::kill(pid, SIGSTOP);
                                  wait_until_all_are_late(stop_descriptor);
                                }});
  reply.left_running = end_descendants();
  std::filesystem::remove_all(scratch_);
  if (request.abroad) {
    const JournalView journal(memory_->journal(0, here));
    const auto bytes = journal.bytes();
    reply.journal = {{reinterpret_cast<const char*>(bytes.data()), bytes.size()},
                     journal.overflowed()};
    memory_->region.release(memory_->journal(0, here));
  }
  return reply;
}

std::unique_ptr<Gathering> ForkedServer::gathering_of(const PlayRequest& request) const {
  if (!request.abroad) return std::make_unique<GatheringInMemory>(memory_->store, memory_->meeting);
  return std::make_unique<GatheringAtServer>(
      GatheringAtServer::Place{.address = request.abroad->store_address,
                               .port = request.abroad->store_port,
                               .listens_on = request.abroad->listens_on});
}

// The ranks of a launched world that are on one host have one folder. Who is through first must not
// take it away from the others: it goes when the next case comes, which all have ended before.
std::filesystem::path ForkedServer::scratch_of(const PlayRequest& request) {
  remove_scratch_abroad();
  if (!request.abroad) return scratch_;
  scratch_abroad_ = scratch_.parent_path() / request.abroad->scratch;
  return scratch_abroad_;
}

// Other servers of this host do the same at the same time.
void ForkedServer::remove_scratch_abroad() {
  std::error_code gone;
  if (!scratch_abroad_.empty()) std::filesystem::remove_all(scratch_abroad_, gone);
  scratch_abroad_.clear();
}

// Note [Late together]
// At the deadline every server looks where its rank stands and stops it, and only when all have are
// ranks killed: one that is killed a moment earlier closes its connections, and peers that still
// ran would tell of that instead of hanging as they were. Who cannot be heard of is waited for this
// long.
void ForkedServer::wait_until_all_are_late(int socket) const {
  constexpr int kOthersPatience_ms = 2000;
  send_message(socket, {static_cast<uint32_t>(ServerWord::late), ""});
  pollfd readable{socket, POLLIN, 0};
  if (poll(&readable, 1, kOthersPatience_ms) == 1) receive_message(socket);
}

std::string ForkedServer::look(const LookRequest& request) const {
  const auto output = capture_->of(0);
  return text_of(
      LookReply{.out = output.out, .err = output.err, .frames = lines_at(request.addresses)});
}

std::function<void(const std::vector<std::pair<int, pid_t>>&)> ForkedServer::look_at_stacks(
    PlayReply& reply) {
  return [&](const std::vector<std::pair<int, pid_t>>& late) {
    for (const auto& [index, pid] : late)
      reply.stacks[index] = stacks_of(pid, memory_->stacks, kStackPatience);
  };
}

void ForkedServer::finish() {
  warm_.clear();
  host_.reset();
  std::filesystem::remove_all(scratch_);
  remove_scratch_abroad();
}

// Null where tensors are on the CPU.
const DeviceBackend* ForkedServer::device_backend(const PlayRequest& request) const {
  if (request.tier == "sim") return nullptr;
  return backend_called(request.backend, options_.backends).device.get();
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
