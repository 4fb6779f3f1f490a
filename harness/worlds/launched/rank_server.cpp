#include "harness/worlds/launched/rank_server.h"

#include "harness/process/message.h"
#include "harness/process/zygote.h"
#include "harness/rank/journal.h"
#include "harness/worlds/forked/forked_ranks.h"

#include <csignal>
#include <cstdlib>
#include <poll.h>

namespace lockstep {

namespace {

// Note [Late together]
// At the deadline every server takes the stacks of its rank and stops it, and only when all have
// done so are ranks killed: one that is killed a moment earlier closes its connections, and peers
// that still ran would report that instead of hanging as they were. Servers that cannot be reached
// are waited for this long.
void wait_until_all_are_late(int socket) {
  constexpr int kOthersPatience_ms = 2000;
  send_message(socket, {static_cast<uint32_t>(ServerWord::late), ""});
  pollfd readable{socket, POLLIN, 0};
  if (poll(&readable, 1, kOthersPatience_ms) == 1) receive_message(socket);
}

}  // namespace

RankServer::RankServer(const std::vector<Scenario>& scenarios, const Subjects& subjects,
                       const ForkedOptions& options, std::shared_ptr<LaneMemory> memory)
    : workplace_(scenarios, subjects, options, std::move(memory)) {}

void RankServer::prepare() {
  workplace_.prepare();
  // A case's world has other ranks on this host than the launcher says.
  for (const char* name : {"LOCAL_RANK", "LOCAL_WORLD_SIZE"}) ::unsetenv(name);
}

std::string RankServer::serve(const std::string& text, int stop_descriptor) {
  const auto request = member_request_in(text);
  if (request.look) return text_of(look(*request.look));
  return text_of(run(*request.run, stop_descriptor));
}

RankReply RankServer::run(const RankRequest& request, int stop_descriptor) {
  const Scenario& scenario = workplace_.scenario(request.of.scenario);
  const CaseAssignment assignment(request.of, case_in(request.of, scenario), scenario,
                                  workplace_.subject(request.of.subject));
  const RendezvousAtServer rendezvous({.address = request.store_address,
                                       .port = request.store_port,
                                       .listens_on = request.listens_on});
  auto here = run_forked(assignment,
                         {.first = request.rank,
                          .device = request.device,
                          .when_late =
                              [&](const auto& late) {
                                for (const auto& [index, pid] : late) ::kill(pid, SIGSTOP);
                                wait_until_all_are_late(stop_descriptor);
                              }},
                         rendezvous, workplace_, kept_, stop_descriptor);
  const auto memory = workplace_.memory().journal(0, 1);
  const JournalView journal(memory);
  const auto bytes = journal.bytes();
  RankReply reply{.end = here.group.ends.front(),
                  .left_running = here.left_running,
                  .stacks = std::move(here.stacks[0]),
                  .overflowed = journal.overflowed(),
                  .journal = {reinterpret_cast<const char*>(bytes.data()), bytes.size()}};
  workplace_.memory().region.release(memory);
  return reply;
}

LookReply RankServer::look(const LookRequest& request) const {
  auto output = workplace_.capture->of(0);
  return {.out = std::move(output.out),
          .err = std::move(output.err),
          .frames = frames_at({request.addresses.begin(), request.addresses.end()})};
}

}  // namespace lockstep
