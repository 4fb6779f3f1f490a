#include "harness/world/forked/server.h"

#include "harness/core/text.h"
#include "harness/core/tier.h"
#include "harness/process/message.h"
#include "harness/process/zygote.h"
#include "harness/recorder/journal.h"
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

// The time for the threads of one process to write their stacks.
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
  // Failures of a case's ranks, injected ones included, are not for the launcher of this program.
  ::unsetenv("TORCHELASTIC_ERROR_FILE");
  answer_on(memory_->stacks);
  for (const auto& each : options_.backends)
    if (each.device && each.why_not.empty()) each.device->before_forks();
  warm_up_for_forks();
  require_one_intra_op_thread();
  alone_.emplace();
  const auto root =
      options_.scratch.empty() ? std::filesystem::temp_directory_path() : options_.scratch;
  scratch_.emplace(root);
}

std::string ForkedServer::serve(const std::string& text, int stop_descriptor) {
  if (text.starts_with(kKeepOutput)) {
    capture_->keep(text.substr(kKeepOutput.size()));
    return "";
  }
  if (is_look_request(text)) return look(look_request_in(text));
  const auto request = case_request_in(text);
  scenario(request.scenario);  // throws the error for the runner
  subjects_.at(request.subject);
  if (request.tier == "sim") return text_of(play_sim(request, stop_descriptor));
  if (request.tier == "warm") return text_of(play_warm(request, stop_descriptor));
  return text_of(play_cold(request, stop_descriptor));
}

std::string ForkedServer::serve_remote(const std::string& text, int stop_descriptor) {
  if (is_look_request(text)) return look(look_request_in(text));
  const auto request = remote_request_in(text);
  try {
    // Every field of the case is in its range, and none is unknown.
    scenario(request.scenario).parse(case_of(request).value);
  } catch (const FieldError& error) {
    throw TierError(std::string("the case of a request: ") + error.what());
  }
  subjects_.at(request.subject);
  return text_of(play_cold(request, stop_descriptor));
}

// Ranks whose processes are forked for this one case: its whole world, or the one rank of a
// launched world that runs here.
CaseReply ForkedServer::play_cold(const CaseRequest& request, int stop_descriptor) {
  const Scenario& played = scenario(request.scenario);
  const Subject& subject = subjects_.at(request.subject);
  const Case c = case_of(request);
  const int first = request.remote ? request.remote->rank : 0;
  const int here = request.remote ? 1 : request.size;
  const auto deadline = Clock::now() + request.limit;
  const auto rendezvous = rendezvous_of(request);
  affinity_.roam();
  // Distinguishes what a cold case leaves running from processes that live on.
  warm_.clear();
  host_.reset();
  memory_->clear(here);
  capture_->start(here);
  ChildGroup ranks(*alone_, here, [&](int index) {
    ::close(stop_descriptor);
    record_crash_in(memory_->crashes[static_cast<size_t>(index)]);
    capture_->redirect(index);
    return run_rank({.scenario = played,
                     .c = c,
                     .subject = subject,
                     .rank = first + index,
                     .size = request.size,
                     .journal = memory_->journal(index, here),
                     .rendezvous = *rendezvous,
                     .backend = device_backend(request),
                     .device = request.remote ? request.remote->device : std::nullopt,
                     .scratch = scratch_->path(),
                     .deadline = deadline});
  });
  CaseReply reply;
  const auto look_at_late_ones = look_at_stacks(reply);
  reply.group = ranks.wait({.deadline = deadline,
                            .good_status = kPlayed,
                            .grace = options_.grace,
                            .stop_descriptor = stop_descriptor,
                            .on_bad_end = [&] { memory_->exit_barrier.call_off(); },
                            .on_deadline =
                                [&](const auto& late) {
                                  look_at_late_ones(late);
                                  if (!request.remote) return;
                                  for (const auto& [index, pid] : late) ::kill(pid, SIGSTOP);
                                  wait_until_all_are_late(stop_descriptor);
                                }});
  add_stacks_of_crashes(reply);
  reply.left_running = end_descendants();
  scratch_->remove();
  if (request.remote) {
    const JournalView journal(memory_->journal(0, here));
    const auto bytes = journal.bytes();
    reply.journal = {{reinterpret_cast<const char*>(bytes.data()), bytes.size()},
                     journal.overflowed()};
    memory_->region.release(memory_->journal(0, here));
  }
  return reply;
}

std::unique_ptr<ForkedRendezvous> ForkedServer::rendezvous_of(const CaseRequest& request) const {
  if (!request.remote)
    return std::make_unique<RendezvousInMemory>(memory_->store, memory_->exit_barrier);
  return std::make_unique<RendezvousAtServer>(
      RendezvousAtServer::Place{.address = request.remote->store_address,
                                .port = request.remote->store_port,
                                .listens_on = request.remote->listens_on});
}

// Note [Late together]
// At the deadline every server takes the stacks of its rank and stops it, and only when all have
// done so are ranks killed: one that is killed a moment earlier closes its connections, and peers
// that still ran would report that instead of hanging as they were. Servers that cannot be reached
// are waited for this long.
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
    CaseReply& reply) {
  return [&](const std::vector<std::pair<int, pid_t>>& late) {
    for (const auto& [index, pid] : late)
      reply.stacks[index] = stacks_of(pid, memory_->stacks, kStackPatience);
  };
}

// Stacks of processes of the group, by their number.
void ForkedServer::add_stacks_of_crashes(CaseReply& reply) const {
  for (size_t index = 0; index < reply.group.ends.size(); ++index) {
    if (reply.group.ends[index].kind != ChildEnd::Kind::signalled) continue;
    if (auto crash = crash_in(memory_->crashes[index]))
      reply.stacks[static_cast<int>(index)] = {std::move(*crash)};
  }
}

void ForkedServer::finish() {
  warm_.clear();
  host_.reset();
  if (scratch_) scratch_->remove();
}

// Null where tensors are on the CPU.
const DeviceBackend* ForkedServer::device_backend(const CaseRequest& request) const {
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
