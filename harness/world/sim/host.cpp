#include "harness/world/sim/host.h"

#include "harness/world/forked/conversation.h"
#include "harness/world/holdings.h"
#include "harness/world/sim/world.h"

#include <torch/torch.h>

#include <thread>

namespace lockstep::sim {

namespace {

// More would only hold memory: large worlds are rare.
constexpr int kThreadsKept = 16;

// What is made at its first use is made now, and in a thread, as ranks will.
void use_once() {
  std::thread([] {
    const auto parameter = torch::ones({1}, torch::requires_grad());
    (parameter * 2).sum().backward();
  }).join();
}

}  // namespace

int serve_host(const Host& host) {
  use_once();
  const auto holdings = Holdings::now();
  Crew crew;
  while (const auto order = host.next()) {
    const WorldSpec spec = world_of(order->c);
    const int size = spec.size;
    std::vector<std::span<std::byte>> journals;
    for (int rank = 0; rank < size; ++rank) journals.push_back(host.journal(rank, size));
    auto played = play_simulated({.crew = crew,
                                  .scenario = order->scenario,
                                  .c = order->c,
                                  .spec = spec,
                                  .subject = order->subject,
                                  .journals = journals,
                                  .scratch = host.scratch,
                                  .limit = order->limit,
                                  .call_sites = order->call_sites,
                                  .running = host.running,
                                  .redirect = host.redirect});
    HostReport report{.left = std::move(played.left), .choices = {}};
    if (order->choices) report.choices = std::move(played.choices);
    report.is_usable = !played.has_frozen_ranks;
    // Of a world whose ranks are all gone, whatever is there was left by one of them.
    if (report.is_usable) {
      crew.keep(kThreadsKept);
      auto now = Holdings::now();
      now.threads -= crew.size();
      for (auto& what : holdings.more_in(now)) report.left.front().push_back(std::move(what));
    }
    for (const auto& left : report.left) report.is_usable = report.is_usable && left.empty();
    host.done(report);
    if (!report.is_usable) return 0;
  }
  return 0;
}

}  // namespace lockstep::sim
